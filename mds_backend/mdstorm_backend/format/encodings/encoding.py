"""Encodings of the MDS format: their names, and the bytes each value takes.

An encoding is a text such as ``"int32"``, ``"str"`` or ``"ndarray:float32:3"``. Those that take the
same number of bytes for every value are *fixed-size*: they have a NumPy dtype and a shape. Those
that the format does not know are *opaque*: readers step over their values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mdstorm_backend.base.errors import UnsupportedEncodingError

__all__ = [
    "ARRAY_CODES",
    "ARRAY_DTYPES",
    "IMAGES",
    "IMAGE_LISTS",
    "SCALAR_DTYPES",
    "TEXTS",
    "Encoding",
    "array_encoding",
    "general_encoding",
    "parse_encoding",
]

#: What stands before the values of an array that states its own dtype, and the dtype.
ARRAY_CODES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}

#: dtypes that an ``ndarray`` may hold.
ARRAY_DTYPES = frozenset(ARRAY_CODES.values())

#: Fixed-size scalar encodings and the little-endian dtype of their bytes.
SCALAR_DTYPES = {name: np.dtype(name).newbyteorder("<") for name in sorted(ARRAY_DTYPES)}
SCALAR_DTYPES["int"] = np.dtype("<i8")

#: Values that are one image.
IMAGES = frozenset({"pil", "jpeg", "png"})

#: Values that are several images, and what each of them is.
IMAGE_LISTS = {"jpeg_array": "jpeg", "list[pil]": "pil", "list[jpeg]": "jpeg", "list[png]": "png"}

#: Values that are text.
TEXTS = frozenset({"str", "json", "str_int", "str_float", "str_decimal"})

_VARIABLE = TEXTS | IMAGES | {*IMAGE_LISTS, "bytes", "pkl", "ndarray"}
_ALIASES = {"jpegarray": "jpeg_array"}

#: Encodings that hold the values of others without loss. An image file says which kind it is.
_GENERAL = {
    "bytes": {"bytes", "str"},
    "png": {"png", "jpeg"},
    "list[png]": {"list[png]", "list[jpeg]"},
    "str_int": {"str_int", "int", *(d for d in ARRAY_DTYPES if "int" in d and d != "uint64")},
    "str_float": {"str_float", "float16", "float32", "float64"},
}

#: What `general_encoding` calls encodings that have nothing in common.
_MIXED = "mixed"

#: Offsets in a shard have 32 bits, and NumPy's dtypes no more than 31.
_LARGEST_VALUE = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Encoding:
    """One parsed encoding.

    Attributes
    ----------
    text : str
        The encoding as the index states it.
    kind : str
        The text up to its first colon: ``"int32"``, ``"str"``, ``"ndarray"``, …; of an encoding
        with two names always the same.
    dtype : numpy.dtype or None
        Little-endian dtype of the values, for scalars, and for arrays that do not state their own.
    shape : tuple of int or None
        Shape of one value; ``()`` for scalars, None where it varies.
    is_opaque : bool
        Whether the format does not know it. The size of its values is in the shard's index entry,
        or before every value.
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
        if self.kind == _MIXED:
            raise UnsupportedEncodingError(
                f"column {column!r} is stored in shards as {self.text.partition(':')[2]}, which "
                "have no common form. Read it a sample at a time, dataset[i], or leave it out with "
                "columns=[…]"
            )
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
        kind = _ALIASES.get(kind, kind)
        if kind in _VARIABLE:
            return Encoding(text, kind)
    if kind == "ndarray" and parameters:
        dtype, _, shape = parameters.partition(":")
        if dtype in ARRAY_DTYPES:
            return _check_size(
                Encoding(text, kind, SCALAR_DTYPES[dtype], _parse_shape(text, shape))
            )
    return Encoding(text, kind, is_opaque=True)


def array_encoding(dtype: np.dtype[np.generic], length: int | None) -> str:
    """Encoding of one-dimensional arrays, of one `length` in elements or (None) of any."""
    return f"ndarray:{dtype.name}" if not length else f"ndarray:{dtype.name}:{length}"


def general_encoding(texts: Sequence[str]) -> str:
    """Return the encoding whose values can stand for those of several encodings.

    Shards of one dataset may store a column differently. Where no encoding holds the values of all
    without loss, the result is opaque.
    """
    encodings = [parse_encoding(text) for text in texts]
    kinds = {encoding.kind for encoding in encodings}
    dtypes = {encoding.dtype for encoding in encodings}
    if kinds == {"ndarray"}:
        dtype = dtypes.pop()
        return "ndarray" if dtypes or dtype is None else array_encoding(dtype, None)
    if len(kinds) == 1 and not encodings[0].is_opaque:
        return texts[0]
    if None not in dtypes and kinds <= {*SCALAR_DTYPES}:
        common = np.result_type(*(dtype for dtype in dtypes if dtype is not None))
        if {dtype.kind == "f" for dtype in dtypes if dtype is not None} == {common.kind == "f"}:
            return str(common.name)
    for general, special in _GENERAL.items():
        if kinds <= special:
            return general
    return f"{_MIXED}:{' and '.join(texts)}"


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


def _check_size(encoding: Encoding) -> Encoding:
    if (encoding.size or 0) > _LARGEST_VALUE:
        raise UnsupportedEncodingError(
            f"encoding {encoding.text!r} has no valid shape: a value would take {encoding.size} "
            "bytes, and a shard holds less than 4 GiB"
        )
    return encoding
