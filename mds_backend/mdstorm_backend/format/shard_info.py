"""Index entries of shards, and the names of the files next to them."""

from __future__ import annotations

from typing import Any, NamedTuple

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


class FileInfo(NamedTuple):
    """One file of a shard: its path relative to the dataset, its size in bytes, and its hashes."""

    basename: str
    bytes: int
    hashes: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object for the file, with the format's three keys."""
        return {"basename": self.basename, "bytes": self.bytes, "hashes": dict(self.hashes)}


class ShardInfo(NamedTuple):
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
