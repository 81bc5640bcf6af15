"""Encodings of bytes, pickled objects, and values that user-defined classes turn into bytes.

A user-defined class is like MosaicML Streaming's classes, with `encode` and `decode`. It is sent to
other processes by pickle (by reference) or cloudpickle (possibly by value).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedEncodingError
from mdstorm_backend.format.encodings.encoding import DecodeSpan, DecodeValue, Encoding

#: A class, or another callable without arguments, that creates a coder.
MakeCoder: TypeAlias = Callable[[], Any]


class Bytes(Encoding):
    """The encoding ``bytes``: values that are stored unchanged."""

    names = ("bytes",)
    is_verbatim = True
    late = "never"
    carries = (pa.types.is_binary,)
    holds = frozenset({"str"})
    rows_per_batch = 128

    def encode(self, value: Any) -> bytes:
        """Raise TypeError: `encoder` already passes on ``bytes``, and no other type is allowed."""
        raise TypeError(f"expected bytes, found {type(value).__name__}: convert it with bytes(…)")

    def decode(self, stored: Any) -> Any:
        """Return the bytes themselves."""
        return stored

    def span_decoder(self, data: memoryview, decode: DecodeValue) -> DecodeSpan:
        """Return the function that copies the bytes between two positions."""
        return lambda start, stop: data[start:stop].tobytes()


class Pickle(Encoding):
    """The encoding ``pkl``: any object, as a Python pickle."""

    names = ("pkl",)
    is_collated = True
    is_unsafe = True
    placeholder = pickle.dumps(None)
    rows_per_batch = 128

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether the type has any values, which all types but the null type do."""
        return not pa.types.is_null(type_)

    def encode(self, value: Any) -> bytes:
        """Pickle an object."""
        return pickle.dumps(value)

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Pickle values one by one, times as strings; keep binaries, which are pickles already."""
        is_temporal = pa.types.is_temporal(values.type)
        return super().encode_values(values.cast(pa.string()) if is_temporal else values)

    def decode(self, stored: Any) -> Any:
        """Unpickle an object."""
        return pickle.loads(stored)  # noqa: S301  # only if the caller explicitly allowed it


@dataclass(frozen=True)
class UserEncoding(Encoding):
    """An encoding whose values a user-defined coder encodes and decodes one at a time.

    Attributes
    ----------
    coder : object
        An object with the methods ``encode(value) -> bytes`` and ``decode(bytes) -> value``.
    value_size : int or None
        Size of one value in bytes, or None if it varies.
    """

    coder: Any = field(default=None, compare=False, repr=False)
    value_size: int | None = None

    joins_arrays = True
    is_collated = True

    @property
    def size(self) -> int | None:
        """Size of one value in bytes, or None if it varies."""
        return self.value_size

    def sized(self, size: int | None) -> Encoding:
        """Return the encoding with the size that its values had when they were written."""
        return replace(self, value_size=size)

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return None: a coder stores values of its own kind only."""
        return None

    def output_type(self, declared: pa.DataType) -> pa.DataType:
        """Return the type of the stored bytes, which are decoded later."""
        return self.arrow_type

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether the type has any values; the coder gets them as Python objects."""
        return not pa.types.is_null(type_)

    def encode(self, value: Any) -> bytes:
        """Return the coder's bytes for a value, or raise an error if they are invalid."""
        stored = self.coder.encode(value)
        if not isinstance(stored, (bytes, bytearray, memoryview)):
            raise TypeError(
                f"{_shown(self.coder)}.encode returned {type(stored).__name__}, but must return "
                "bytes"
            )
        if self.size is not None and len(stored) != self.size:
            raise ValueError(
                f"{_shown(self.coder)}.encode returned {len(stored)} bytes, but its size is "
                f"{self.size}"
            )
        return bytes(stored)

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Encode values of any type, one at a time."""
        return self.encode_each(values)

    def decode(self, stored: Any) -> Any:
        """Decode stored bytes with the coder, and return the value."""
        return self.coder.decode(stored)


class UnsafeUserEncoding(UserEncoding):
    """A user-defined encoding in place of pickles, decoded only if unsafe types are allowed."""

    is_unsafe = True


def value_size(coder: Any) -> int | None:
    """Return the size of a coder's values in bytes; None if the coder has no fixed size.

    Raises
    ------
    InvalidArgumentError
        If the size is invalid, or a method is missing.
    """
    missing = [name for name in ("encode", "decode") if not callable(getattr(coder, name, None))]
    if missing:
        raise InvalidArgumentError(
            f"{_shown(coder)} has no method {' and no method '.join(missing)}: an encoding has "
            "encode(value) -> bytes and decode(bytes) -> value"
        )
    size = getattr(coder, "size", None)
    if size is None:
        return None
    if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 1:
        raise InvalidArgumentError(
            f"{_shown(coder)}.size must be the number of bytes in every value, or None if it "
            f"varies, found {size!r}"
        )
    return int(size)


def _shown(coder: Any) -> str:
    return type(coder).__qualname__


def user_encoding(make: MakeCoder, text: str) -> Encoding | None:
    """Return the encoding that `text` names, with a coder of the class registered for it.

    If the string has parameters, after a colon, the class method ``from_str(parameters)`` creates
    the coder. The result is None if the class does not accept parameters.

    Raises
    ------
    UnsupportedEncodingError
        If the class fails to create a coder, or the coder is invalid.
    """
    name, _, parameters = text.partition(":")
    from_str = getattr(make, "from_str", None)
    if parameters and from_str is None:
        return None
    try:
        coder = from_str(parameters) if parameters and from_str else make()
        size = value_size(coder)
    except Exception as error:
        raise UnsupportedEncodingError(
            f"encoding {text!r}: the class that was registered for {name!r} does not accept it "
            f"({type(error).__name__}: {error})"
        ) from error
    kind = UnsafeUserEncoding if name in Pickle.names else UserEncoding
    return kind(text, coder=coder, value_size=size)
