"""Compression and hashes of whole files, under the names that the MDS format uses.

Supported hashes are the algorithms that ``hashlib`` guarantees on every platform, except
variable-length ones (``shake_*``), and the algorithms in the library ``xxhash``.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from mdstorm_backend.base.checks import check_names, check_text
from mdstorm_backend.base.optional import require
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.storage import Buffer

#: Upper bound on the uncompressed bytes per compressed byte, for the compressions whose output is
#: allocated at once. Files with other compressions are decompressed a piece at a time, so no more
#: memory is allocated than their output needs.
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

#: The file extensions of compressed shards, as alternatives in a regular expression.
EXTENSIONS = "|".join(_CODECS)


def compression_names() -> list[str]:
    """Return every name that `compress` accepts, without and with each of its levels."""
    return [*_CODECS, *(f"{name}:{level}" for name in _CODECS for level in levels_of(name))]


def levels_of(name: str) -> list[int]:
    """Return the levels of a compression, ascending; empty if it has no levels."""
    levels = _CODECS[name][1]
    return [] if levels is None else list(range(levels[0], levels[1] + 1))


def level_of(compression: str) -> int | None:
    """Return the level in ``"name:level"``, or the default level; None if there are no levels."""
    return _parse(compression)[1]


def check_compression(compression: str | None) -> None:
    """Raise InvalidArgumentError unless `compression` is None, ``"name"`` or ``"name:level"``."""
    if compression is not None:
        if compression != "":  # of which `_parse` says which names there are
            check_text("compression", compression)
        _parse(compression)


def extension(compression: str) -> str:
    """Return the file extension of shards with this compression, such as ``"zstd"``."""
    return _parse(compression)[0]


def compress(compression: str, buffers: Sequence[Buffer]) -> Buffer:
    """Compress the concatenation of `buffers` into one buffer."""
    name, level = _parse(compression)
    # Use Arrow's memory pool, which reuses freed memory: getting new memory from the system takes
    # longer than zstd takes to compress.
    data = pa.allocate_buffer(sum(map(len, buffers)))
    with pa.FixedSizeBufferWriter(data) as writer:
        for buffer in buffers:
            writer.write(buffer)
    if name == "bz2":
        return bz2.compress(data, level or 9)
    if name == "gz" and level == 0:
        return gzip.compress(data, 0, mtime=0)  # Arrow 14 does not accept level 0
    codec = pa.Codec(_CODECS[name][0], compression_level=level)
    return memoryview(codec.compress(data)).cast("B")


def decompress(compression: str, data: Buffer, size: int) -> Buffer:
    """Decompress `data` to exactly `size` bytes.

    Never allocates more than `size` bytes, and allocates nothing if `data` is too short to hold
    that many.

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
    if name == "snappy" and (stated := _snappy_size(data)) != size:
        raise ValueError(f"a snappy file states a size of {stated} bytes, expected {size}")
    unpacked: Buffer
    if name in _LARGEST_RATIO:
        # Arrow accepts any size that is large enough, and leaves the bytes after the output unset.
        unpacked = memoryview(pa.Codec(name).decompress(data, size))
    else:
        unpacked = _in_pieces(name, data, size)
    if len(unpacked) != size:
        raise ValueError(
            f"a {name} file holds {len(unpacked)} uncompressed bytes or more, expected {size}"
        )
    return unpacked


def decompress_unsized(extension: str, data: Buffer, most: int) -> Buffer:
    """Decompress a shard whose uncompressed size is not known from an index.

    Raises
    ------
    ValueError, OSError
        If `data` is damaged, or holds more than `most` bytes.
    """
    # Arrow cannot stream snappy, but the file states its uncompressed size.
    if extension == "snappy":
        size = _snappy_size(data)
        if size > min(most, _LARGEST_RATIO["snappy"] * len(data)):
            raise ValueError(
                f"the file states {size} bytes, which {len(data)} compressed bytes cannot hold"
            )
        return decompress(extension, data, size)
    unpacked = _in_pieces(extension, data, most)
    if len(unpacked) > most:
        raise ValueError(f"the file holds more than {most} uncompressed bytes")
    return unpacked


def _snappy_size(data: Buffer) -> int:
    """Return the uncompressed size that a snappy file states: a varint at its start."""
    size = 0
    for i, byte in enumerate(bytes(data[:5])):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            break
    return size


def _in_pieces(name: str, data: Buffer, most: int) -> Buffer:
    """Decompress one or several concatenated files, stopping at `most` + 1 bytes."""
    pieces: list[memoryview] = []
    left = most + 1  # one byte more than allowed shows that the file is too large
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), _CODECS[name][0]) as stream:
            # `read` is not used, because it never frees the memory of a failed read.
            while left and (piece := stream.read_buffer(min(left, _PIECE))).size:
                pieces.append(memoryview(piece))
                left -= piece.size
    except pa.ArrowException as error:
        raise ValueError(f"a {name} file is damaged: {error}") from error
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

#: Names of all supported hashes; the xxhash algorithms need the extra with that name.
HASH_NAMES = frozenset({*_HASHLIB, *_XXHASH})


def check_hashes(names: Iterable[str] | None) -> tuple[str, ...]:
    """Check the names of hashes, and return them as a tuple, which is empty for None.

    Raises
    ------
    InvalidArgumentError
        If a name is unknown, or the names are not unique and sorted, which other readers require.
    MissingDependencyError
        If a hash needs xxhash, which is not installed.
    """
    if isinstance(names, str):
        raise ArgumentTypeError(f"hashes must be a list, found {names!r}: write [{names!r}]")
    check_names("hashes", names)
    hashes = tuple(names or ())
    if list(hashes) != sorted(set(hashes)):
        raise InvalidArgumentError(
            f"hashes must be unique and in sorted order, found {list(hashes)}: write "
            f"{sorted(set(hashes))}"
        )
    for name in hashes:
        _new(name)
    return hashes


def digest(name: str, buffers: Iterable[Buffer]) -> str:
    """Return the hash of the concatenation of `buffers`, as lower-case hexadecimal text.

    Raises
    ------
    InvalidArgumentError
        If the name is unknown.
    MissingDependencyError
        If the hash needs xxhash, which is not installed.
    """
    return digests([name], buffers)[name]


def digests(names: Iterable[str], buffers: Iterable[Buffer]) -> dict[str, str]:
    """Return the hash of the concatenation of `buffers` for each of `names`, in one pass."""
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
        # The hash detects damage rather than attacks, so MD5 may be used even where a policy
        # restricts it.
        return hashlib.new(name, usedforsecurity=False)
    raise InvalidArgumentError(
        f"hash {name!r} is unknown: use one of {', '.join(sorted(HASH_NAMES))}"
    )
