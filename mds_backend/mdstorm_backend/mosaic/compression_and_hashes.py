"""Compression and hashes of files, with the names of MosaicML Streaming."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from mdstorm_backend.format import compression as codecs
from mdstorm_backend.format.compression import HASH_NAMES, digest

if TYPE_CHECKING:
    from typing_extensions import Self

_NAMES = frozenset(codecs.compression_names())


def get_compressions() -> set[str]:
    """Return all names, alone and with each of their levels, such as ``"zstd:1"``."""
    return set(_NAMES)


def is_compression(algo: str | None) -> bool:
    """Whether `algo` is the name of a compression, possibly with a level."""
    return algo in _NAMES


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
    return data if algo is None else bytes(codecs.compress(algo, [data]))


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


class Compression:
    """A compression with its level, if it has levels.

    Parameters
    ----------
    level : int, optional
        One of `levels`; by default the compression's own.

    Raises
    ------
    InvalidArgumentError
        If there is no such level. A `ValueError`.
    """

    extension: ClassVar[str] = ""
    levels: ClassVar[list[int]] = []

    def __init__(self, level: int | None = None) -> None:
        name = self.extension if level is None else f"{self.extension}:{level}"
        self.level = codecs.level_of(name)
        self._name = name

    def __init_subclass__(cls) -> None:
        cls.levels = codecs.levels_of(cls.extension)

    @classmethod
    def each(cls) -> Iterator[tuple[str, Self]]:
        """Yield each name of the compression, alone and with a level, and what has that name."""
        yield cls.extension, cls()
        for level in cls.levels:
            yield f"{cls.extension}:{level}", cls(level)

    def compress(self, data: bytes) -> bytes:
        """Compress `data`."""
        return compress(self._name, data)

    def decompress(self, data: bytes) -> bytes:
        """Undo `compress`; see `decompress` of this module."""
        return decompress(self._name, data)


class Brotli(Compression):
    """Brotli, levels 0 to 11."""

    extension = "br"


class Bzip2(Compression):
    """Bzip2, levels 1 to 9."""

    extension = "bz2"


class Gzip(Compression):
    """Gzip, levels 0 to 9."""

    extension = "gz"


class Snappy(Compression):
    """Snappy, which has no levels."""

    extension = "snappy"


class Zstandard(Compression):
    """Zstandard, levels 1 to 22."""

    extension = "zstd"


def get_hashes() -> set[str]:
    """Return the names of all hashes; those that begin with xxh need the extra ``xxhash``."""
    return set(HASH_NAMES)


def is_hash(algo: str) -> bool:
    """Whether `algo` is the name of a hash."""
    return algo in HASH_NAMES


def get_hash(algo: str, data: bytes) -> str:
    """Hash `data`: lower-case hexadecimal text.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    MissingDependencyError
        If it is one of xxhash, which is not installed.
    """
    return digest(algo, [data])
