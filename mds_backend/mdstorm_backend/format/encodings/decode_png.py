"""Decode PNG files as OpenCV writes them, faster than Pillow does.

Petastorm's `CompressedImageCodec` writes PNG files with OpenCV, and mdstorm's writes the same kind:
grey or RGB, with 8 or 16 bits, no optional chunks, and every row filtered with Sub, which stores
the difference from the pixel to the left. NumPy undoes this filter for many rows in each call. All
other PNG files are left to Pillow.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format.encodings.image_memory import check_size, output_array

_START = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4s", 13, b"IHDR")
#: Width, height, bit depth, colour type, the three methods, and the header chunk's checksum.
_HEADER = struct.Struct(">II2B3sI")
_CHECKED = slice(12, 29)
_FIRST_CHUNK = len(_START) + _HEADER.size
#: Colour type → channels.
_CHANNELS = {0: 1, 2: 3}
#: The only compression and filter methods that exist, and no interlacing.
_METHODS = bytes(3)
_SUB = 1
#: Rows that are decompressed to find out whether the file uses other filters, as most do.
_TRIED = 8
#: Bytes of the rows whose filter is undone together: they stay in the processor's cache.
_TOGETHER = 1 << 16
#: Shorter rows are added up byte by byte, because each further call takes longer than that.
_SHORT = 256


def png_pixels(
    data: bytes,
    out: npt.NDArray[Any] | None,
    most: int,
) -> npt.NDArray[Any] | None:
    """Return the pixels of a PNG file as OpenCV writes it, or None for any other data.

    Parameters
    ----------
    data : bytes
        The file.
    out : numpy.ndarray, optional
        Contiguous output array, used if it has the pixels' shape and dtype.
    most : int
        Maximum size of the pixels in bytes.

    Returns
    -------
    numpy.ndarray or None
        uint8 or uint16, ``(height, width)`` or ``(height, width, 3)``. None also if the file is
        damaged: Pillow's error then describes the damage.

    Raises
    ------
    InvalidArgumentError
        If the pixels would take up more than `most` bytes.
    """
    if not data.startswith(_START) or len(data) < _FIRST_CHUNK:
        return None
    width, height, depth, kind, methods, checksum = _HEADER.unpack_from(data, len(_START))
    channels = _CHANNELS.get(kind)
    if channels is None or depth not in (8, 16) or methods != _METHODS:
        return None
    if not width or not height or zlib.crc32(data[_CHECKED]) != checksum:
        return None
    check_size(width, height, depth * channels, most)
    pixel = depth // 8 * channels
    parts = _parts(data, height, 1 + width * pixel)
    if parts is None:
        return None
    shape = (height, width) if channels == 1 else (height, width, channels)
    out = output_array(out, shape, f"u{depth // 8}")
    stored = out.reshape(height, -1) if depth == 8 else np.empty((height, width * pixel), np.uint8)
    _undo_sub(parts, pixel, stored)
    if depth == 16:
        out[...] = stored.view(">u2").reshape(shape)
    return out


def _undo_sub(parts: list[bytes], pixel: int, out: npt.NDArray[np.uint8]) -> None:
    """Write the pixels of filtered rows to `out`."""
    height, length = out.shape
    if length < _SHORT:
        rows = np.frombuffer(b"".join(parts), np.uint8).reshape(height, -1)
        differences = rows[:, 1:].reshape(height, -1, pixel)
        np.add.accumulate(differences, 1, np.uint8, out.reshape(differences.shape))
        return
    together, top = max(_TOGETHER // length, 1), 0
    for part in parts:
        rows = np.frombuffer(part, np.uint8).reshape(-1, 1 + length)
        for start in range(0, len(rows), together):
            differences = rows[start : start + together, 1:]
            _add_up(differences, pixel, out[top : top + len(differences)])
            top += len(differences)


def _add_up(differences: npt.NDArray[np.uint8], step: int, out: npt.NDArray[np.uint8]) -> None:
    """Write the sums of the differences up to each pixel, modulo 256, as filters work."""
    # Two sums of n differences make one of 2n, and one call adds such pairs in all rows. NumPy's
    # running sum is several times slower, because each byte waits for the one before it.
    out[...] = differences
    while step < out.shape[1]:
        out[:, step:] += out[:, :-step]
        step *= 2


def _parts(data: bytes, height: int, length: int) -> list[bytes] | None:
    """Return the filtered rows of a file whose rows are all filtered with Sub, or None.

    The file must have only data chunks before its end.
    """
    compressed = _compressed(data)
    if compressed is None:
        return None
    unpacker = zlib.decompressobj()
    first, size = min(height, _TRIED) * length, height * length
    try:
        parts = [unpacker.decompress(compressed, first)]
        if not _are_sub(parts[0], length):
            return None
        if size > first:  # a limit of 0 would be none
            parts.append(unpacker.decompress(unpacker.unconsumed_tail, size - first))
    except zlib.error:
        return None
    # At `eof`, zlib has verified the checksum.
    if not unpacker.eof or sum(map(len, parts)) != size or not _are_sub(parts[-1], length):
        return None
    return parts


def _are_sub(filtered: bytes, length: int) -> bool:
    """Whether all rows have the filter Sub, given rows of `length` bytes."""
    rows = -(-len(filtered) // length)
    return filtered[::length] == bytes([_SUB]) * rows


def _compressed(data: bytes) -> bytes | memoryview | None:
    """Return the joined contents of the data chunks; None if there are chunks of other kinds."""
    content = memoryview(data)
    parts = []
    start = _FIRST_CHUNK
    while start + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, start)
        end = start + 12 + length
        if kind == b"IEND":
            break
        if kind != b"IDAT":
            return None
        parts.append(content[start + 8 : end - 4])
        start = end
    else:
        return None
    return parts[0] if len(parts) == 1 else b"".join(parts)
