"""Encodings, compressions and hashes, with the names of MosaicML Streaming."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, ClassVar

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format import compression as codecs
from mdstorm_backend.format.compression import HASH_NAMES, digest
from mdstorm_backend.format.encodings import registry
from mdstorm_backend.format.shard_info import MAX_SHARD_BYTES
from mdstorm_backend.mosaic.encoding_classes import FORMAT_CLASSES, OfFormat

if TYPE_CHECKING:
    from typing_extensions import Self


class _Encodings(MutableMapping[str, Any]):
    """A live mapping of the names of all encodings to their classes, over the engine's registry."""

    def __getitem__(self, name: str) -> Any:
        if name not in registry.known_names():
            raise KeyError(name)
        found = registry.user_classes().get(name) or FORMAT_CLASSES.get(name)
        kind = type(registry.parse_encoding(name))
        return found or type(kind.__name__, (OfFormat,), {"_text": name})

    def __setitem__(self, name: str, make: Any) -> None:
        if name in registry.user_classes() and FORMAT_CLASSES.get(name) is make:
            registry.unregister_encoding(name)
        elif FORMAT_CLASSES.get(name) is not make:
            registry.register_encoding(name, make)

    def __delitem__(self, name: str) -> None:
        registry.unregister_encoding(name)

    def __iter__(self) -> Iterator[str]:
        return iter(registry.known_names())

    def __len__(self) -> int:
        return len(registry.known_names())


#: Programs set a name to a class to define or redefine an encoding, as `register_encoding` does.
#: Deleting a redefined encoding restores that of the format.
_encodings = _Encodings()


def get_mds_encodings() -> set[str]:
    """Return the names of all encodings."""
    return set(_encodings)


def _get_coder(encoding: str) -> Any:
    """Return an instance of an encoding's class; None if there is no such encoding."""
    name, _, parameters = encoding.partition(":")
    kind = _encodings.get(name)
    if kind is None or not parameters:
        return None if kind is None else kind()
    return kind.from_str(parameters)


def _coder(encoding: str) -> Any:
    coder = _get_coder(encoding)
    if coder is None:
        raise UnsupportedEncodingError(
            f"there is no encoding {encoding!r}: known are {', '.join(sorted(_encodings))}"
        )
    return coder


def is_mds_encoding(encoding: str) -> bool:
    """Whether `encoding` is a known encoding."""
    return _get_coder(encoding) is not None


def is_mds_encoding_safe(encoding: str) -> bool:
    """Whether decoding a value cannot run code in it."""
    return not registry.parse_encoding(encoding).is_unsafe


def mds_encode(encoding: str, obj: Any) -> bytes:
    """Encode a value; bytes are returned unchanged.

    Raises
    ------
    UnsupportedEncodingError
        If there is no such encoding; it is also a ValueError.
    EncodingError
        If the value does not fit the encoding.
    """
    stored: bytes = obj if isinstance(obj, bytes) else _coder(encoding).encode(obj)
    return stored


def mds_decode(encoding: str, data: bytes) -> Any:
    """Decode a value.

    Raises
    ------
    UnsupportedEncodingError
        If there is no such encoding; it is also a ValueError.
    """
    return _coder(encoding).decode(data)


def get_mds_encoded_size(encoding: str) -> int | None:
    """Return the size in bytes of every encoded value, or None if sizes vary.

    Raises
    ------
    UnsupportedEncodingError
        If there is no such encoding; it is also a ValueError.
    """
    size: int | None = _coder(encoding).size
    return size


_NAMES = frozenset(codecs.compression_names())


def get_compressions() -> set[str]:
    """Return the names of all compressions, alone and with each level, such as ``"zstd:1"``."""
    return set(_NAMES)


def is_compression(algo: str | None) -> bool:
    """Whether `algo` is the name of a compression, possibly with a level."""
    return algo in _NAMES


def get_compression_extension(algo: str) -> str:
    """Return the file name extension of a compression, such as ``"zstd"``.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    """
    return codecs.extension(algo)


def compress(algo: str | None, data: bytes) -> bytes:
    """Compress `data`, or return it unchanged if `algo` is None.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    """
    return data if algo is None else bytes(codecs.compress(algo, [data]))


def decompress(algo: str | None, data: bytes) -> bytes:
    """Decompress `data`, or return it unchanged if `algo` is None.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    ValueError, OSError
        If `data` was not compressed with `algo`.
    """
    if algo is None:
        return data
    return bytes(codecs.decompress_unsized(codecs.extension(algo), data, MAX_SHARD_BYTES))


class Compression:
    """A compression with its level, if it has levels.

    Parameters
    ----------
    level : int, optional
        One of `levels`; by default the compression's default level.

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
        """Yield each name of the compression, without and with a level, and its instance."""
        yield cls.extension, cls()
        for level in cls.levels:
            yield f"{cls.extension}:{level}", cls(level)

    def compress(self, data: bytes) -> bytes:
        """Compress `data`."""
        return compress(self._name, data)

    def decompress(self, data: bytes) -> bytes:
        """Decompress `data`; see the function `decompress`."""
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
    """Return the names of all hashes; names that begin with xxh need the extra ``xxhash``."""
    return set(HASH_NAMES)


def is_hash(algo: str) -> bool:
    """Whether `algo` is the name of a hash."""
    return algo in HASH_NAMES


def get_hash(algo: str, data: bytes) -> str:
    """Return the hash of `data` in lower-case hexadecimal digits.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown. A `ValueError`.
    MissingDependencyError
        If the hash needs xxhash, which is not installed.
    """
    return digest(algo, [data])
