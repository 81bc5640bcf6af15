"""Compression and hashes of whole files, by the names that the MDS format uses.

Hashes are the algorithms of ``hashlib`` that every Python has, except the two whose length is free
(``shake_*``), and those of the library ``xxhash``.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from mdstorm_backend.base.optional import require
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.storage import Buffer

#: How many bytes one byte of a compressed file can stand for at most. Those of the other names are
#: decompressed a piece at a time, so that what comes out is what is allocated.
_LARGEST_RATIO = {"zstd": 1 << 15, "snappy": 64}
_PIECE = 1 << 22

#: Name in the format → pyarrow's name, lowest, highest and default level (None: no levels).
_CODECS: dict[str, tuple[str, tuple[int, int, int] | None]] = {
    "zstd": ("zstd", (1, 22, 3)),
    "gz": ("gzip", (0, 9, 9)),
    "bz2": ("bz2", (1, 9, 9)),
    "br": ("brotli", (0, 11, 11)),
    "snappy": ("snappy", None),
}

#: The file name endings of compressed shards, as alternatives of a regular expression.
EXTENSIONS = "|".join(_CODECS)


def compression_names() -> list[str]:
    """Every name that `compress` takes, alone and with each of its levels."""
    return [*_CODECS, *(f"{name}:{level}" for name in _CODECS for level in levels_of(name))]


def levels_of(name: str) -> list[int]:
    """The levels of a compression, ascending; none for one that has no levels."""
    levels = _CODECS[name][1]
    return [] if levels is None else list(range(levels[0], levels[1] + 1))


def level_of(compression: str) -> int | None:
    """The level that ``"name:level"`` states, or the default one; None if there are no levels."""
    return _parse(compression)[1]


def check_compression(compression: str | None) -> None:
    """Raise InvalidArgumentError unless `compression` is None, ``"name"`` or ``"name:level"``."""
    if compression is not None:
        _parse(compression)


def extension(compression: str) -> str:
    """File name ending of shards compressed so, such as ``"zstd"``."""
    return _parse(compression)[0]


def compress(compression: str, buffers: Sequence[Buffer]) -> Buffer:
    """Compress the concatenation of `buffers` in one piece."""
    name, level = _parse(compression)
    # In memory of Arrow's, which keeps what is freed: to be given new memory takes the system
    # longer than zstd takes to fill it.
    data = pa.allocate_buffer(sum(map(len, buffers)))
    with pa.FixedSizeBufferWriter(data) as writer:
        for buffer in buffers:
            writer.write(buffer)
    if name == "bz2":
        return bz2.compress(data, level or 9)
    if name == "gz" and level == 0:
        return gzip.compress(data, 0, mtime=0)  # Arrow 14 refuses the level
    codec = pa.Codec(_CODECS[name][0], compression_level=level)
    return memoryview(codec.compress(data)).cast("B")


def decompress(compression: str, data: Buffer, size: int) -> Buffer:
    """Undo `compress`; `size` is the number of bytes that come out.

    No more than that is ever allocated, and not even that if `data` cannot hold as much.

    Raises
    ------
    ValueError, OSError
        If `data` is damaged, or does not hold `size` bytes.
    """
    name, _ = _parse(compression)
    if size < 0:
        raise ValueError(f"a shard cannot hold {size} bytes")
    if size > _LARGEST_RATIO.get(name, size) * (len(data) + 4):
        raise ValueError(f"a {name} file of {len(data)} bytes cannot hold {size} bytes")
    unpacked = _unpacked(name, data, size)
    if len(unpacked) != size:
        raise ValueError(
            f"a {name} file holds {len(unpacked)} bytes or more, where {size} were expected"
        )
    return unpacked


def decompress_unsized(extension: str, data: Buffer, most: int) -> Buffer:
    """Decompress a shard of which no index says how large it is.

    Raises
    ------
    ValueError, OSError
        If `data` is damaged, or holds more than `most` bytes.
    """
    if extension == "snappy":  # states its size, and no stream of Arrow's understands it
        size = _snappy_size(data)
        if size > min(most, _LARGEST_RATIO["snappy"] * len(data)):
            raise ValueError(f"it states {size} bytes, which cannot lie in {len(data)}")
        return decompress(extension, data, size)
    unpacked = _in_pieces(extension, data, most)
    if len(unpacked) > most:
        raise ValueError(f"it holds more than {most} bytes")
    return unpacked


def _unpacked(name: str, data: Buffer, size: int) -> Buffer:
    if name not in _LARGEST_RATIO:
        return _in_pieces(name, data, size)
    # Arrow asks for a length that suffices, and leaves what it does not fill as it finds it.
    if name == "snappy" and (stated := _snappy_size(data)) != size:
        raise ValueError(f"a snappy file states {stated} bytes, where {size} were expected")
    return memoryview(pa.Codec(name).decompress(data, size))


def _snappy_size(data: Buffer) -> int:
    """Bytes that a snappy file says it holds: it begins with them, seven bits in a byte."""
    size = 0
    for i, byte in enumerate(bytes(data[:5])):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            break
    return size


def _in_pieces(name: str, data: Buffer, most: int) -> Buffer:
    """Decompress a file, or several one behind the other; of too large a one only the beginning."""
    pieces: list[memoryview] = []
    left = most + 1  # one byte more than expected shows that there is too much
    with pa.CompressedInputStream(pa.BufferReader(data), _CODECS[name][0]) as stream:
        # Not by `read`, which never gives back the memory of a read that failed.
        while left and (piece := stream.read_buffer(min(left, _PIECE))).size:
            pieces.append(memoryview(piece))
            left -= piece.size
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _parse(compression: str) -> tuple[str, int | None]:
    name, colon, text = compression.partition(":")
    if name in _CODECS:
        levels = _CODECS[name][1]
        if not colon:
            return name, levels[2] if levels else None
        if levels and text.isascii() and text.isdigit() and levels[0] <= int(text) <= levels[1]:
            return name, int(text)
    raise InvalidArgumentError(
        f"compression {compression[:80]!r} is unknown: use None or one of "
        + ", ".join(n if not lv else f"{n}:{lv[0]}…{lv[1]}" for n, (_, lv) in _CODECS.items())
    )


_XXHASH = ("xxh128", "xxh32", "xxh3_128", "xxh3_64", "xxh64")
_HASHLIB = {name for name in hashlib.algorithms_guaranteed if not name.startswith("shake_")}

#: Every name that can be computed here; those of xxhash need the extra of that name.
HASH_NAMES = frozenset({*_HASHLIB, *_XXHASH})


def check_hashes(names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of hashes as a tuple; None stands for none.

    Raises
    ------
    InvalidArgumentError
        If a name is unknown, or the names are not unique and sorted: other readers refuse that.
    MissingDependencyError
        If one is of xxhash, which is not installed.
    """
    if isinstance(names, str):
        raise ArgumentTypeError(f"hashes must be a list, found {names!r}: write [{names!r}]")
    found = tuple(names or ())
    if list(found) != sorted(set(found)):
        raise InvalidArgumentError(
            f"hashes must be unique and in sorted order, found {list(found)}: write "
            f"{sorted(set(found))}"
        )
    for name in found:
        _new(name)
    return found


def digest(name: str, buffers: Iterable[Buffer]) -> str:
    """Hash the concatenation of `buffers`: lower-case hexadecimal text.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown.
    MissingDependencyError
        If it is one of xxhash, which is not installed.
    """
    return digests([name], buffers)[name]


def digests(names: Iterable[str], buffers: Iterable[Buffer]) -> dict[str, str]:
    """Hash the concatenation of `buffers` by each of `names`, in one pass over them."""
    states = {name: _new(name) for name in names}
    if states:
        for buffer in buffers:
            for state in states.values():
                state.update(buffer)
    return {name: str(state.hexdigest()) for name, state in states.items()}


def _new(name: str) -> Any:
    if name in _XXHASH:
        return getattr(require("xxhash"), name)()
    if name in _HASHLIB:
        # Against damage, not against an adversary: so MD5 works where policy forbids it otherwise.
        return hashlib.new(name, usedforsecurity=False)
    raise InvalidArgumentError(
        f"hash {name!r} is unknown: use one of {', '.join(sorted(HASH_NAMES))}"
    )
