"""Index entries of shards, sizes in bytes (also as strings such as ``"64mb"``), and shard names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.compression import EXTENSIONS

INDEX_NAME = "index.json"
#: Name of the file that marks directories created by mdstorm. It does not end with ``.json``,
#: because other readers list such files.
MARKER_NAME = "_mdstorm"
#: Name of the file that a writer creates and keeps locked while it is active. The file remains,
#: unlocked, if the writer is killed.
CLAIM_NAME = "_mdstorm_writing"
#: Version of the format, stored in the index and in every shard entry.
INDEX_VERSION = 2
#: Maximum size of an uncompressed shard: its last offset, a uint32, is the length of the file.
MAX_SHARD_BYTES = 2**32 - 1


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file of a shard: its path relative to the dataset, its size in bytes, and its hashes."""

    basename: str
    bytes: int
    hashes: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object for the file, with the format's three keys."""
        return {"basename": self.basename, "bytes": self.bytes, "hashes": dict(self.hashes)}


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """The index entry of one shard.

    Attributes
    ----------
    column_names, column_encodings, column_sizes : tuple
        One item per column, names in code-point order; sizes are in bytes, None where they vary.
    samples : int
        Number of samples.
    raw_data : FileInfo
        The uncompressed shard.
    zip_data : FileInfo or None
        The compressed shard, if there is one.
    compression : str or None
        Codec and level, such as ``"zstd:1"``.
    hashes : tuple of str
        Names of the hashes that `raw_data` and `zip_data` have.
    size_limit : int, str or None
        The writer's size limit in bytes, as stored in the index: the format also allows a
        string such as ``"64mb"``.
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
        """The file that is part of the dataset: the compressed file if there is one."""
        return self.zip_data or self.raw_data

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object for the shard, with the format's eleven keys."""
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
    """Return the number of bytes for a number or a string such as ``"1.5mb"``.

    A kilobyte has 1024 bytes; case does not matter.

    Raises
    ------
    InvalidArgumentError
        If the value is not a size.
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
    """Return the shard size limit in bytes; None, meaning no limit, if `value` is None or 0.

    Raises
    ------
    InvalidArgumentError
        If the value is not a size, is negative, or is 4 GiB or more.
    """
    limit = parse_size(0 if value is None else value)
    if not 0 <= limit <= MAX_SHARD_BYTES:
        raise InvalidArgumentError(
            f"size_limit must be greater than zero and less than 2**32 bytes, found {value!r}"
        )
    return limit or None


_SHARD_NAME = re.compile(
    r"(?:shard|part-(?P<partition>\d{5,})-(?:(?P<job>[0-9a-f]{8})-)?(?P<attempt>\d+))"
    rf"\.(?P<number>\d{{5,}})\.mds(?:\.(?P<extension>{EXTENSIONS}))?"
)


@dataclass(frozen=True)
class ShardName:
    """The parsed name of a shard file.

    Attributes
    ----------
    path : str
        The whole name, relative to the dataset directory.
    directory : str
        Subdirectory of the dataset directory; empty if there is none.
    job : str
        Spark job that wrote the shard; empty if the name does not state one.
    partition, attempt : int
        Partition and attempt of that job; -1 for shards of a single writer.
    number : int
        Number of the shard among its writer's shards, starting at 0.
    extension : str
        Extension for the compression; empty for an uncompressed shard.
    """

    path: str
    directory: str
    job: str
    partition: int
    attempt: int
    number: int
    extension: str

    @property
    def writer(self) -> tuple[str, str, int, int]:
        """Identifies the writer of the shard; each writer numbers its shards from 0."""
        return self.directory, self.job, self.partition, self.attempt

    @property
    def place(self) -> str:
        """The job's output directory, without any subdirectory for the shard's partition."""
        parent, _, last = self.directory.rpartition("/")
        return parent if self.job and last == f"{self.partition:05}" else self.directory

    @property
    def raw_path(self) -> str:
        """Path of the uncompressed file."""
        return self.path.removesuffix(f".{self.extension}") if self.extension else self.path


def parse_shard_name(path: str) -> ShardName | None:
    """Parse a file path; return None if it is not the name of a shard."""
    directory, _, name = path.rpartition("/")
    found = _SHARD_NAME.fullmatch(name)
    if found is None:
        return None
    partition, attempt = int(found["partition"] or -1), int(found["attempt"] or -1)
    job, number, extension = found["job"] or "", int(found["number"]), found["extension"] or ""
    return ShardName(path, directory, job, partition, attempt, number, extension)
