"""What an index records about a shard and its files, and sizes in bytes, also as text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mdstorm_backend.errors import InvalidArgumentError

INDEX_NAME = "index.json"
#: Says that mdstorm made the directory. Other readers list files that end in ``.json``.
MARKER_NAME = "_mdstorm"
#: Version of the format, which stands in the index and again for every shard.
INDEX_VERSION = 2
#: Offsets inside a shard are uint32, and the last one is the length of the uncompressed file.
MAX_SHARD_BYTES = 2**32 - 1


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file of a shard: its name relative to the dataset, its size in bytes, its hashes."""

    basename: str
    bytes: int
    hashes: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the three keys of a file."""
        return {"basename": self.basename, "bytes": self.bytes, "hashes": dict(self.hashes)}


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """What the index says of one shard.

    Attributes
    ----------
    column_names, column_encodings, column_sizes : tuple
        One entry per column, names in code-point order; a size is in bytes, None where it varies.
    samples : int
        Number of samples.
    raw_data : FileInfo
        The uncompressed shard.
    zip_data : FileInfo or None
        The compressed shard, where there is one.
    compression : str or None
        Codec and level, such as ``"zstd:1"``.
    hashes : tuple of str
        Names of the hashes that `raw_data` and `zip_data` carry.
    size_limit : int, str or None
        Largest size in bytes that the writer allowed itself, as it stands in the index: the format
        also allows a text such as ``"64mb"``.
    """

    column_names: tuple[str, ...]
    column_encodings: tuple[str, ...]
    column_sizes: tuple[int | None, ...]
    samples: int
    raw_data: FileInfo
    zip_data: FileInfo | None = None
    compression: str | None = None
    hashes: tuple[str, ...] = ()
    size_limit: int | str | None = None

    @property
    def stored(self) -> FileInfo:
        """The file that the dataset consists of: the compressed one where there is one."""
        return self.zip_data or self.raw_data

    def to_json(self) -> dict[str, Any]:
        """Return the eleven keys of a shard object."""
        return {
            "column_encodings": list(self.column_encodings),
            "column_names": list(self.column_names),
            "column_sizes": list(self.column_sizes),
            "compression": self.compression,
            "format": "mds",
            "hashes": list(self.hashes),
            "raw_data": self.raw_data.to_json(),
            "samples": self.samples,
            "size_limit": self.size_limit,
            "version": INDEX_VERSION,
            "zip_data": self.zip_data.to_json() if self.zip_data else None,
        }


_UNITS = {"b": 1, **{f"{prefix}b": 1 << 10 * (i + 1) for i, prefix in enumerate("kmgtpezy")}}
_TEXT = re.compile(r"(?P<number>[^a-df-z]+?)\s*(?P<unit>[kmgtpezy]?b)?")


def parse_size(value: float | str) -> int:
    """Return the bytes that a number, or a text such as ``"1.5mb"``, stands for.

    A kilobyte has 1024 bytes; case does not matter.

    Raises
    ------
    InvalidArgumentError
        If it is not a size.
    """
    try:
        if not isinstance(value, str):
            return int(value)
        match = _TEXT.fullmatch(value.strip().lower())
        if match is None:
            raise ValueError(value)
        number, unit = match["number"], match["unit"]
        return int(number) if unit is None else int(float(number) * _UNITS[unit])
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{value!r} is not a size: unsupported value or suffix. Pass a number of bytes, or a "
            "string such as '64mb'"
        ) from error


def parse_size_limit(value: float | str | None) -> int | None:
    """Return the largest size of a shard in bytes; None, also for 0, is no limit.

    Raises
    ------
    InvalidArgumentError
        If it is not a size, negative, or 4 GiB or more.
    """
    limit = parse_size(0 if value is None else value)
    if not 0 <= limit <= MAX_SHARD_BYTES:
        raise InvalidArgumentError(
            f"size_limit must be greater than zero and less than 2**32 bytes, found {value!r}"
        )
    return limit or None
