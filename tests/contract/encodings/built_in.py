"""Values of the encodings of the MDS format."""

from decimal import Decimal
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image


def _image(shade: int) -> Image.Image:
    return Image.fromarray(np.full((2, 3, 3), shade, np.uint8))


def _jpeg(shade: int) -> bytes:
    file = BytesIO()
    _image(shade).save(file, "JPEG")
    return file.getvalue()


_IMAGES = [_image(shade) for shade in (10, 20, 30)]
_JPEGS = [_jpeg(shade) for shade in (10, 20, 30)]
_ARRAYS = [np.arange(i, i + 6, dtype=np.int16).reshape(2, 3) for i in range(3)]

_INTEGERS, _NATURALS, _FLOATS = [-1, 0, 100], [0, 1, 200], [-0.5, 0.0, 2.5]
_LISTS = [_IMAGES, _IMAGES[:1], []]
_FILES = [_JPEGS, _JPEGS[:1], []]

VALUES: dict[str, list[Any]] = {
    **dict.fromkeys(("int", "int8", "int16", "int32", "int64", "str_int"), _INTEGERS),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64"), _NATURALS),
    **dict.fromkeys(("float16", "float32", "float64", "str_float"), _FLOATS),
    "str_decimal": [Decimal("-0.50"), Decimal(0), Decimal("2.5")],
    "str": ["", "a", "b\0ä"],
    "bytes": [b"", b"a", b"\0b"],
    "json": ["", "a", "{}"],
    "pkl": [{"a": 1}, (), "x"],
    **dict.fromkeys(("ndarray", "ndarray:int16", "ndarray:int16:2,3"), _ARRAYS),
    **dict.fromkeys(("pil", "jpeg", "png"), _IMAGES),
    **dict.fromkeys(("list[pil]", "list[jpeg]", "list[png]"), _LISTS),
    **dict.fromkeys(("jpeg_array", "jpegarray"), _FILES),
}
