"""Encode 8-bit and 16-bit grey and RGB images without OpenCV.

Pillow has no RGB images of 16 bits: their PNG files are written here.
"""

from __future__ import annotations

import importlib
import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import require

#: Formats whose names for Pillow are not theirs in capitals.
_PILLOW_NAMES = {"jpg": "JPEG", "jpe": "JPEG", "tif": "TIFF", "jp2": "JPEG2000", "dib": "BMP"}

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Bits of a sample, and the kind of its colours.
_RGB16 = bytes([16, 2])
#: The filter that stores the difference from the pixel to the left.
_SUB = 1


def encode_image(format_: str, pixels: npt.NDArray[Any], quality: int) -> bytes:
    """Return the file of an image.

    Parameters
    ----------
    format_ : str
        ``"png"``, ``"jpeg"``, …
    pixels : numpy.ndarray
        ``(H, W)`` or ``(H, W, 3)`` in RGB, uint8, or uint16 for PNG.
    quality : int
        Of 100, for formats with loss.

    Raises
    ------
    TypeError
        If pixels cannot have this dtype.
    KeyError, ValueError, OSError
        If Pillow does not write the format.
    """
    if pixels.dtype == np.uint16 and pixels.ndim == 3 and format_ == "png":
        return _encode_rgb16(pixels)
    allowed = ("uint8", "uint16") if pixels.ndim == 2 and format_ == "png" else ("uint8",)
    if pixels.dtype.name not in allowed:
        raise TypeError(f"pixels must be {' or '.join(allowed)}")
    require("PIL")
    image = importlib.import_module("PIL.Image").fromarray(np.ascontiguousarray(pixels))
    file = io.BytesIO()
    image.save(file, _PILLOW_NAMES.get(format_, format_.upper()), quality=quality)
    return file.getvalue()


def _encode_rgb16(pixels: npt.NDArray[Any]) -> bytes:
    height, width, _ = pixels.shape
    samples = np.ascontiguousarray(pixels, ">u2").view(np.uint8).reshape(height, -1)
    rows = np.empty((height, 1 + samples.shape[1]), np.uint8)
    rows[:, 0] = _SUB
    rows[:, 1:7] = samples[:, :6]
    np.subtract(samples[:, 6:], samples[:, :-6], out=rows[:, 7:])
    header = struct.pack(">II5B", width, height, *_RGB16, 0, 0, 0)
    content = zlib.compress(rows.data)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", content) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)
