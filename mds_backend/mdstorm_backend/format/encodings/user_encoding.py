"""Encodings that users define, as in MosaicML Streaming: a class with `encode` and `decode`.

The class is sent to other processes by pickle (by reference) or cloudpickle (possibly by value).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedEncodingError
from mdstorm_backend.format.encodings.encoding import Encoding
from mdstorm_backend.format.values.batch import Positions, Values, gather_binary

#: A class, or another callable without arguments, that creates a coder.
MakeCoder: TypeAlias = Callable[[], Any]


@dataclass(frozen=True)
class UserEncoding(Encoding):
    """An encoding whose values are encoded and decoded one at a time by a user's coder.

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

    @property
    def size(self) -> int | None:
        """Size of one value in bytes, or None if it varies."""
        return self.value_size

    def sized(self, size: int | None) -> Encoding:
        """Return the encoding for another size, which the class may have had at writing."""
        return replace(self, value_size=size)

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return the text if all encodings have it: other parameters may not be compatible."""
        return self.text if {encoding.text for encoding in encodings} == {self.text} else None

    def delivered_type(self, declared: pa.DataType) -> pa.DataType:
        """Return the type of the stored bytes, which are decoded later."""
        return self.arrow_type

    def can_store(self, type_: pa.DataType) -> bool:
        """Whether the type has values, which the coder gets as Python objects."""
        return not pa.types.is_null(type_)

    def encode(self, value: Any) -> bytes:
        """Return the bytes that the coder returns for a value, or raise if they are invalid."""
        stored = self.coder.encode(value)
        if not isinstance(stored, (bytes, bytearray, memoryview)):
            raise TypeError(
                f"{_shown(self.coder)}.encode returned {type(stored).__name__} and must return "
                "bytes"
            )
        if self.size is not None and len(stored) != self.size:
            raise ValueError(
                f"{_shown(self.coder)}.encode returned {len(stored)} bytes, and its size is "
                f"{self.size}"
            )
        return bytes(stored)

    def encode_values(self, values: pa.Array) -> pa.LargeBinaryArray:
        """Encode values of any type, one at a time."""
        return self.encode_each(values)

    def decode(self, stored: Any) -> Any:
        """Return the value that the coder returns for stored bytes."""
        return self.coder.decode(stored)

    def decode_column(self, data: Any, starts: Positions, sizes: Positions | int) -> Values:
        """Return a copy of the stored bytes, which are decoded later if objects are wanted."""
        if isinstance(sizes, int):
            sizes = np.full(len(starts), sizes, np.int64)
        return gather_binary(data, starts, sizes, pa.binary())


class UnsafeUserEncoding(UserEncoding):
    """A user's encoding in place of one that is only decoded if unsafe types are allowed."""

    is_unsafe = True


def value_size(coder: Any) -> int | None:
    """Return the value size that a coder states, in bytes; None if it states none.

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
            f"{_shown(coder)} has the size {size!r}: it is the number of bytes of every value, or "
            "None where they vary"
        )
    return int(size)


def _shown(coder: Any) -> str:
    return type(coder).__qualname__


@dataclass(frozen=True)
class UserKind:
    """A name and the class that a user registered for it.

    Attributes
    ----------
    name : str
        Name of the encoding, without parameters.
    make : callable
        Creates a coder. If the text of an encoding has parameters, after a colon, the method
        ``from_str(parameters)`` is called instead.
    is_unsafe : bool
        Whether the name is that of an unsafe encoding of the format, whose values may run code.
    """

    name: str
    make: MakeCoder
    is_unsafe: bool = False

    is_opaque: ClassVar[bool] = False

    def parse(self, text: str, parameters: str) -> Encoding | None:
        """Return the encoding for a text, or None if the class does not accept parameters.

        Raises
        ------
        UnsupportedEncodingError
            If the class fails to create a coder, or the coder is invalid.
        """
        from_str = getattr(self.make, "from_str", None)
        if parameters and from_str is None:
            return None
        try:
            coder = from_str(parameters) if parameters and from_str else self.make()
            size = value_size(coder)
        except Exception as error:
            raise UnsupportedEncodingError(
                f"encoding {text!r}: the class that was registered for {self.name!r} does not "
                f"take it ({type(error).__name__}: {error})"
            ) from error
        kind = UnsafeUserEncoding if self.is_unsafe else UserEncoding
        return kind(text, coder=coder, value_size=size)
