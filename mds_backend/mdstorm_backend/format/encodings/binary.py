"""Encodings of bytes and of pickled Python objects."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa

from mdstorm_backend.format.encodings.encoding import Decode, DecodeSpan, Encoding


class Bytes(Encoding):
    """The encoding ``bytes``: values that are stored as they are."""

    names = ("bytes",)
    is_verbatim = True
    late = "never"
    carries = (pa.types.is_binary,)
    holds = frozenset({"str"})
    rows_per_batch = 128

    def encode(self, value: Any) -> bytes:
        """Refuse everything but ``bytes``."""
        raise TypeError(
            f"it is of type {type(value).__name__} and must be bytes: convert it with bytes(…)"
        )

    def decode(self, stored: Any) -> Any:
        """Return the bytes themselves."""
        return stored

    def span_decoder(self, data: memoryview, decode: Decode) -> DecodeSpan:
        """Return the function that copies the bytes between two positions."""
        return lambda start, stop: data[start:stop].tobytes()


class Pickle(Encoding):
    """The encoding ``pkl``: any object, as Python pickles it."""

    names = ("pkl",)
    is_unsafe = True
    placeholder = pickle.dumps(None)
    rows_per_batch = 128

    def can_store(self, type_: pa.DataType) -> bool:
        """Return True for all types that have values."""
        return not pa.types.is_null(type_)

    def encode(self, value: Any) -> bytes:
        """Pickle an object."""
        return pickle.dumps(value)

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Pickle values one by one; binaries are pickles already."""
        if pa.types.is_binary(values.type):
            return super().encode_values(values)
        is_temporal = pa.types.is_temporal(values.type)
        return self.encode_each(values.cast(pa.string()) if is_temporal else values)

    def decode(self, stored: Any) -> Any:
        """Unpickle an object."""
        return pickle.loads(stored)  # noqa: S301  # only where the caller allowed it by name
