"""``index.json``: the file that makes a directory an MDS dataset.

The shard objects hold exactly the eleven keys of the format, since other readers refuse more. What
MDS has no word for stands beside the shard list under the top-level key ``"mdstorm"``, which they
ignore.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from mdstorm_backend.errors import CorruptDatasetError

__all__ = ["INDEX_NAME", "FileInfo", "Index", "ShardInfo"]

INDEX_NAME = "index.json"
_VERSION = 2


@dataclass(frozen=True)
class FileInfo:
    """One file of a shard: its name relative to the dataset, its size in bytes, its hashes."""

    basename: str
    bytes: int
    hashes: dict[str, str]


@dataclass(frozen=True)
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
    size_limit : int or None
        Largest size in bytes that the writer allowed itself.
    """

    column_names: tuple[str, ...]
    column_encodings: tuple[str, ...]
    column_sizes: tuple[int | None, ...]
    samples: int
    raw_data: FileInfo
    zip_data: FileInfo | None = None
    compression: str | None = None
    hashes: tuple[str, ...] = ()
    size_limit: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the eleven keys of a shard object."""
        return {
            "column_encodings": list(self.column_encodings),
            "column_names": list(self.column_names),
            "column_sizes": list(self.column_sizes),
            "compression": self.compression,
            "format": "mds",
            "hashes": list(self.hashes),
            "raw_data": asdict(self.raw_data),
            "samples": self.samples,
            "size_limit": self.size_limit,
            "version": _VERSION,
            "zip_data": asdict(self.zip_data) if self.zip_data else None,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ShardInfo:
        """Read a shard object; raises KeyError, TypeError or ValueError if it is not one."""
        if value["format"] != "mds" or value["version"] != _VERSION:
            raise ValueError(
                f"shard format {value['format']!r} version {value['version']!r} is not MDS "
                f"version {_VERSION}"
            )
        zip_data = value["zip_data"]
        info = cls(
            column_names=tuple(value["column_names"]),
            column_encodings=tuple(value["column_encodings"]),
            column_sizes=tuple(value["column_sizes"]),
            samples=int(value["samples"]),
            raw_data=FileInfo(**value["raw_data"]),
            zip_data=FileInfo(**zip_data) if zip_data else None,
            compression=value["compression"],
            hashes=tuple(value["hashes"]),
            size_limit=value["size_limit"],
        )
        if not len(info.column_names) == len(info.column_encodings) == len(info.column_sizes):
            raise ValueError("column_names, column_encodings and column_sizes differ in length")
        return info


@dataclass(frozen=True)
class Index:
    """The shards of a dataset in order, and the object under ``"mdstorm"`` ({} if absent)."""

    shards: tuple[ShardInfo, ...]
    extra: dict[str, Any]

    def to_bytes(self) -> bytes:
        """Serialise as the format's own writer does: sorted keys, ASCII."""
        value: dict[str, Any] = {
            "shards": [shard.to_json() for shard in self.shards],
            "version": _VERSION,
        }
        if self.extra:
            value["mdstorm"] = self.extra
        return json.dumps(value, sort_keys=True).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes, *, url: str) -> Index:
        """Parse an index.

        Parameters
        ----------
        data : bytes
            Content of the file.
        url : str
            Where it came from, for error messages.

        Raises
        ------
        CorruptDatasetError
            If it is not JSON, or not the index of an MDS dataset of version 2.
        """
        try:
            value = json.loads(data)
            if value["version"] != _VERSION:
                raise ValueError(f"version {value['version']!r}, expected {_VERSION}")
            shards = tuple(ShardInfo.from_json(shard) for shard in value["shards"])
            extra = value.get("mdstorm", {})
            if not isinstance(extra, dict):
                raise TypeError("the entry 'mdstorm' is not an object")
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptDatasetError(
                f"{url} is not the index of an MDS dataset ({type(error).__name__}: {error}). "
                "Write the dataset again, or restore this file from where it was copied",
                url=url,
            ) from error
        return cls(shards, extra)
