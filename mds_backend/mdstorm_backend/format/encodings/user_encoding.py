"""Encodings that users define, as for MosaicML Streaming: a class with `encode` and `decode`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.encodings.encoded_column import EncodedColumn
from mdstorm_backend.format.encodings.encoding import Encoding, validity
from mdstorm_backend.format.encodings.gather import Positions, gather_binary
from mdstorm_backend.format.values.batch import Values
from mdstorm_backend.format.values.plain_arrow import plain_values


@dataclass(frozen=True)
class UserEncoding(Encoding):
    """An encoding whose values a coder of the user's encodes and decodes, one at a time.

    Attributes
    ----------
    coder : object
        It has the methods ``encode(value) -> bytes`` and ``decode(bytes) -> value``.
    value_size : int or None
        Bytes of one value, or None where they vary.
    """

    coder: Any = field(default=None, compare=False, repr=False)
    value_size: int | None = None

    joins_arrays = True

    @property
    def size(self) -> int | None:
        """Bytes of one value, or None where they vary."""
        return self.value_size

    def sized(self, size: int | None) -> Encoding:
        """Return it for values of a size: the class may have had another one at writing."""
        return replace(self, value_size=size)

    def general(self, encodings: Sequence[Encoding]) -> str | None:
        """Return its text if it is that of all: nothing is known of other parameters."""
        return self.text if {encoding.text for encoding in encodings} == {self.text} else None

    def delivered_type(self, declared: pa.DataType) -> pa.DataType:
        """Return the type of what is stored."""
        return self.arrow_type

    def can_store(self, type_: pa.DataType) -> bool:
        """Return True for all types that have values: the coder gets them as Python objects."""
        return not pa.types.is_null(type_)

    def encode(self, value: Any) -> bytes:
        """Return what the coder makes of a value."""
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

    def encode_column(
        self, name: str, values: pa.Array, *, cast: bool = False, ragged: bool = False
    ) -> EncodedColumn:
        """Encode a column one value after the other; a null is stored as zeros, or as nothing."""
        values = plain_values(values)
        encode, null, valid = self.encoder(), bytes(self.size or 0), validity(values)
        stored = [null if value is None else encode(value) for value in values.to_pylist()]
        if self.size is None:
            parts = [pa.array(stored, pa.large_binary())]
            return EncodedColumn(name, self.text, parts=parts, valid=valid)
        fixed = np.frombuffer(b"".join(stored), np.uint8).view(f"V{self.size}")
        return EncodedColumn(name, self.text, fixed=fixed, valid=valid)

    def decode(self, stored: Any) -> Any:
        """Return the value that the coder makes of its bytes."""
        return self.coder.decode(stored)

    def decode_column(self, data: Any, starts: Positions, sizes: Positions | int) -> Values:
        """Copy the bytes of values; they are decoded for those who want the objects."""
        if isinstance(sizes, int):
            sizes = np.full(len(starts), sizes, np.int64)
        return gather_binary(data, starts, sizes, pa.binary())


class UnsafeUserEncoding(UserEncoding):
    """A user's encoding in the place of one that is only decoded for those who allow it."""

    is_unsafe = True


def value_size(coder: Any) -> int | None:
    """Return the size that a coder states, in bytes; None if it has none.

    Raises
    ------
    InvalidArgumentError
        If it is none, or a method is missing.
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
