"""Encodings of the MDS format: their names, and the bytes each value takes.

An encoding is a text such as ``"int32"``, ``"str"`` or ``"ndarray:float32:3"``. Those that take the
same number of bytes for every value are *fixed-size*: they have a NumPy dtype and a shape. Those
that this version cannot decode are *opaque*: readers step over their values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mdstorm_backend.errors import UnsupportedEncodingError

__all__ = ["ARRAY_DTYPES", "SCALAR_DTYPES", "Encoding", "array_encoding", "parse_encoding"]

#: dtypes that an ``ndarray`` may hold.
ARRAY_DTYPES = frozenset(
    f"{kind}{bits}"
    for kind, sizes in (("uint", (8, 16, 32, 64)), ("int", (8, 16, 32, 64)))
    for bits in sizes
) | {"float16", "float32", "float64"}

#: Fixed-size scalar encodings and the little-endian dtype of their bytes.
SCALAR_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in sorted(ARRAY_DTYPES)}
SCALAR_DTYPES["int"] = np.dtype("<i8")

_VARIABLE = frozenset({"bytes", "str", "json", "str_decimal"})


@dataclass(frozen=True)
class Encoding:
    """One parsed encoding.

    Attributes
    ----------
    text : str
        The encoding as the index states it.
    kind : str
        The text up to its first colon: ``"int32"``, ``"str"``, ``"ndarray"``, …
    dtype : numpy.dtype or None
        Little-endian dtype of the values, for scalars and arrays.
    shape : tuple of int or None
        Shape of one value; ``()`` for scalars, None where it varies.
    is_opaque : bool
        Whether this version cannot decode the values. Their size is in the shard's index entry, or
        before every value.
    """

    text: str
    kind: str
    dtype: np.dtype[np.generic] | None = None
    shape: tuple[int, ...] | None = None
    is_opaque: bool = False

    @property
    def size(self) -> int | None:
        """Bytes of one value, or None where they vary."""
        if self.dtype is None or self.shape is None:
            return None
        return self.dtype.itemsize * math.prod(self.shape)

    def check_decodable(self, column: str) -> None:
        """Raise UnsupportedEncodingError if the values of `column` are opaque."""
        if self.is_opaque:
            raise UnsupportedEncodingError(
                f"column {column!r} has encoding {self.text!r}, which this version of mdstorm "
                f"cannot decode; it decodes {', '.join(sorted({*SCALAR_DTYPES, *_VARIABLE}))}, "
                "ndarray:<dtype> and ndarray:<dtype>:<shape>. Leave the column out with "
                "columns=[…]"
            )


@lru_cache(maxsize=1024)
def parse_encoding(text: str) -> Encoding:
    """Parse the text of an encoding; an unknown one is opaque and of variable size.

    Raises
    ------
    UnsupportedEncodingError
        If it is an array of an impossible shape.
    """
    kind, _, parameters = text.partition(":")
    if not parameters:
        if kind in SCALAR_DTYPES:
            return Encoding(text, kind, SCALAR_DTYPES[kind], ())
        if kind in _VARIABLE:
            return Encoding(text, kind)
    if kind == "ndarray" and parameters:
        dtype, _, shape = parameters.partition(":")
        if dtype in ARRAY_DTYPES:
            return Encoding(text, kind, SCALAR_DTYPES[dtype], _parse_shape(text, shape))
    return Encoding(text, kind, is_opaque=True)


def array_encoding(dtype: np.dtype[np.generic], length: int | None) -> str:
    """Encoding of one-dimensional arrays, of one `length` in elements or (None) of any."""
    return f"ndarray:{dtype.name}" if not length else f"ndarray:{dtype.name}:{length}"


def _parse_shape(text: str, shape: str) -> tuple[int, ...] | None:
    if not shape:
        return None
    try:
        dimensions = tuple(int(dimension) for dimension in shape.split(","))
    except ValueError:
        dimensions = (0,)
    if min(dimensions) < 1:
        raise UnsupportedEncodingError(
            f"encoding {text!r} has no valid shape: {shape!r} must be positive integers "
            "separated by commas"
        )
    return dimensions
