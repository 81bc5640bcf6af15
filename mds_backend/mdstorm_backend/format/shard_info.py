"""What an index records about a shard and its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
