"""Compression of whole shards, by the names that the MDS format uses."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterable

import pyarrow as pa

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.storage import Buffer

__all__ = ["check_compression", "compress", "decompress", "extension"]

#: Name in the format → pyarrow's name, lowest, highest and default level (None: no levels).
_CODECS: dict[str, tuple[str, tuple[int, int, int] | None]] = {
    "zstd": ("zstd", (1, 22, 3)),
    "gz": ("gzip", (0, 9, 9)),
    "bz2": ("bz2", (1, 9, 9)),
    "br": ("brotli", (0, 11, 11)),
    "snappy": ("snappy", None),
}


def check_compression(compression: str | None) -> None:
    """Raise InvalidArgumentError unless `compression` is None, ``"name"`` or ``"name:level"``."""
    if compression is not None:
        _parse(compression)


def extension(compression: str) -> str:
    """File name ending of shards compressed so, such as ``"zstd"``."""
    return _parse(compression)[0]


def compress(compression: str, buffers: Iterable[Buffer]) -> bytes:
    """Compress the concatenation of `buffers` in one piece."""
    name, level = _parse(compression)
    data = b"".join(buffers)
    if name == "bz2":
        return bz2.compress(data, level or 9)
    if name == "gz" and level == 0:
        return gzip.compress(data, 0, mtime=0)  # Arrow 14 refuses the level
    codec = pa.Codec(_CODECS[name][0], compression_level=level)
    return codec.compress(data, asbytes=True)  # type: ignore[no-any-return]


def decompress(compression: str, data: Buffer, size: int) -> Buffer:
    """Undo `compress`; `size` is the number of bytes that come out."""
    name, _ = _parse(compression)
    if name == "bz2":
        return bz2.decompress(data)
    return memoryview(pa.Codec(_CODECS[name][0]).decompress(data, size))


def _parse(compression: str) -> tuple[str, int | None]:
    name, colon, text = compression.partition(":")
    if name in _CODECS:
        levels = _CODECS[name][1]
        if not colon:
            return name, levels[2] if levels else None
        if levels and text.isdigit() and levels[0] <= int(text) <= levels[1]:
            return name, int(text)
    raise InvalidArgumentError(
        f"compression {compression!r} is unknown: use None or one of "
        + ", ".join(n if not lv else f"{n}:{lv[0]}…{lv[1]}" for n, (_, lv) in _CODECS.items())
    )
