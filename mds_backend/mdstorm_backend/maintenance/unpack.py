"""Decompression of a shard of which no index says how large it is."""

from __future__ import annotations

import pyarrow as pa

from mdstorm_backend.format.compression import decompress, snappy_size
from mdstorm_backend.format.shard_info import MAX_SHARD_BYTES
from mdstorm_backend.storage import Buffer

__all__ = ["unpack"]

_PIECE = 1 << 20
#: Arrow's names where they differ from those of the format.
_ARROW = {"gz": "gzip", "br": "brotli"}


def unpack(extension: str, data: Buffer) -> Buffer:
    """Decompress a whole file.

    Its size is found by decompressing it once before, a piece at a time, so that no file makes this
    allocate more than it holds.

    Raises
    ------
    ValueError, OSError
        If `data` is damaged, or no shard since it holds 4 GiB or more.
    """
    return decompress(extension, data, _size(extension, data))


def _size(extension: str, data: Buffer) -> int:
    if extension == "snappy":  # states its size, which no stream of Arrow's understands
        return _stated_size(data)
    size = 0
    with pa.CompressedInputStream(
        pa.BufferReader(data), _ARROW.get(extension, extension)
    ) as stream:
        # Not by `read`, which never gives back the memory of a read that failed.
        while piece := stream.read_buffer(_PIECE).size:
            size += piece
            if size > MAX_SHARD_BYTES:
                raise ValueError(f"it holds more than {MAX_SHARD_BYTES} bytes")
    return size


def _stated_size(data: Buffer) -> int:
    size = snappy_size(data)
    # Three bytes of such a file stand for at most 64.
    if size > min(MAX_SHARD_BYTES, 64 * len(data)):
        raise ValueError(f"it states {size} bytes, which cannot lie in {len(data)}")
    return size
