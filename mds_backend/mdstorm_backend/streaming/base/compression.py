"""Compression of files: the mirror of ``streaming.base.compression``."""

from __future__ import annotations

from mdstorm_backend.format import compression as codecs

__all__ = [
    "compress",
    "decompress",
    "get_compression_extension",
    "get_compressions",
    "is_compression",
]


def get_compressions() -> set[str]:
    """Return all names, alone and with each of their levels, such as ``"zstd:1"``."""
    return set(codecs.compression_names())


def is_compression(algo: str | None) -> bool:
    """Whether `algo` is the name of a compression, possibly with a level."""
    return algo in get_compressions()


def get_compression_extension(algo: str) -> str:
    """Return the file name ending of files compressed so, such as ``"zstd"``.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    """
    return codecs.extension(algo)


def compress(algo: str | None, data: bytes) -> bytes:
    """Compress `data`; None returns it as it is.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    """
    return data if algo is None else codecs.compress(algo, [data])


def decompress(algo: str | None, data: bytes) -> bytes:
    """Undo `compress`.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    ValueError, OSError
        If `data` was not compressed so.
    """
    if algo is None:
        return data
    return bytes(codecs.decompress_unsized(codecs.extension(algo), data))
