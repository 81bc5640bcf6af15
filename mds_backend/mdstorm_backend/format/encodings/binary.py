"""Encodings of bytes, of pickled objects, and of values that cannot be decoded.

Values cannot be decoded if their encoding is unknown or redefined, or if a column mixes several.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings.encoding import Decode, DecodeSpan, Encoding


class Bytes(Encoding):
    """The encoding ``bytes``: values that are stored unchanged."""

    names = ("bytes",)
    is_verbatim = True
    late = "never"
    carries = (pa.types.is_binary,)
    holds = frozenset({"str"})
    rows_per_batch = 128

    def encode(self, value: Any) -> bytes:
        """Raise TypeError: only ``bytes`` are allowed, which `encoder` passes on."""
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
        """Whether the type has values: True except for nulls."""
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


class Opaque(Encoding):
    """An unknown encoding, of a later version of the format or defined by a user elsewhere."""

    is_opaque = True
    late = "never"
    #: Returns the names of the known encodings; set by the registry.
    known_names: ClassVar[Callable[[], list[str]]]

    @classmethod
    def parse(cls, text: str, parameters: str) -> Encoding | None:
        """Return the encoding, whatever its parameters."""
        return cls(text)

    def sized(self, size: int | None) -> Encoding:
        """Return the encoding for values of the size that the index states."""
        return self if size is None else replace(self, dtype=np.dtype(f"V{size}"), shape=())

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return None: no encoding is known to hold the values of others."""
        return None

    @property
    def described(self) -> str:
        """The encoding, worded for the middle of a sentence."""
        return f"the unknown encoding {self.text!r}"

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError: the encoding is unknown."""
        raise UnsupportedEncodingError(
            f"column {column!r} has encoding {self.text!r}, which is not known in this process. "
            "If somebody defined it, register the class that decodes it: "
            f"mdstorm_backend.register_encoding({self.kind!r}, TheClass). Otherwise leave the "
            f"column out with columns=[…]. Known are {', '.join(type(self).known_names())}"
        )

    def encode(self, value: Any) -> bytes:
        """Raise UnsupportedEncodingError: the encoding is unknown."""
        raise UnsupportedEncodingError(f"there is no encoding {self.text!r}")

    def decode(self, stored: Any) -> Any:
        """Raise UnsupportedEncodingError: the encoding is unknown."""
        raise UnsupportedEncodingError(f"there is no encoding {self.text!r}")


class Redefined(Opaque):
    """An encoding of the format whose values have another size in the index.

    The writer had registered a class of its own under the name.
    """

    names = ("redefined",)

    @classmethod
    def of(cls, text: str) -> Redefined:
        """Return the redefined form of the encoding `text`."""
        return cls(f"redefined:{text}")

    @property
    def described(self) -> str:
        """The encoding, worded for the middle of a sentence."""
        return f"the encoding {self.text.partition(':')[2]!r} as somebody has redefined it"

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError, which says how to decode the column."""
        stated = self.text.partition(":")[2]
        name = stated.partition(":")[0]
        raise UnsupportedEncodingError(
            f"column {column!r} has encoding {stated!r}, with another size of its values in the "
            "index than this encoding has. Whoever wrote it has redefined the encoding: register "
            f"the class that decodes it with mdstorm_backend.register_encoding({name!r}, "
            "TheClass), before the dataset is opened, or leave the column out with columns=[…]. "
            "If nobody has, the index is damaged: restore it from where it was copied"
        )


class Mixed(Opaque):
    """A stand-in for different encodings of a column in several shards, with no common form."""

    names = ("mixed",)

    @classmethod
    def of(cls, texts: Sequence[str]) -> str:
        """Return the text of the stand-in for the encodings `texts`."""
        return f"mixed:{' and '.join(texts)}"

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError, which says that single samples can be read."""
        raise UnsupportedEncodingError(
            f"column {column!r} is stored in shards as {self.text.partition(':')[2]}, which "
            "have no common form. Read it a sample at a time, dataset[i], or leave it out with "
            "columns=[…]"
        )
