"""The settings shared by all shards of a writer, and a finished shard."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from mdstorm_backend.errors import WriteError
from mdstorm_backend.format.compression import (
    check_compression,
    check_hashes,
    compress,
    digests,
    extension,
)
from mdstorm_backend.format.encodings import parse_encoding
from mdstorm_backend.format.index import parse_shard
from mdstorm_backend.format.shard_info import INDEX_VERSION, MAX_SHARD_BYTES, FileInfo, ShardInfo
from mdstorm_backend.storage import Buffer


@dataclass(frozen=True)
class ShardFormat:
    """What every shard of a writer has in common.

    Attributes
    ----------
    size_limit : int or None
        Largest size of an uncompressed shard in bytes; None puts everything into one.
    compression : str or None
        Codec of the format, such as ``"zstd:1"``.
    hashes : tuple of str
        Names of the hashes that the index is to hold of every file.
    """

    size_limit: int | None
    compression: str | None = None
    hashes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_compression(self.compression)
        check_hashes(self.hashes)

    def file_name(self, basename: str) -> str:
        """Name of the file that holds the shard `basename`, compressed where that is asked for."""
        return f"{basename}.{extension(self.compression)}" if self.compression else basename

    def header(
        self,
        names: tuple[str, ...],
        encodings: tuple[str, ...],
        extra: dict[str, Any] | None = None,
    ) -> bytes:
        """Return the header of a shard; `extra` is what stands in it under ``"mdstorm"``."""
        value: dict[str, Any] = {
            "column_encodings": encodings,
            "column_names": names,
            "column_sizes": _sizes(encodings),
            "compression": self.compression,
            "format": "mds",
            "hashes": self.hashes,
            "size_limit": self.size_limit,
            "version": INDEX_VERSION,
        }
        if extra is not None:
            value["mdstorm"] = extra
        return json.dumps(value, sort_keys=True).encode("ascii")


@dataclass(frozen=True)
class ShardReport:
    """What a writer tells the one who commits: a shard and the nulls it holds.

    Attributes
    ----------
    info : ShardInfo
        The shard's entry for the index.
    null_counts, element_null_counts : dict of str to int
        Null rows, and null array elements, of the columns that have any.
    """

    info: ShardInfo
    null_counts: dict[str, int] = field(default_factory=dict)
    element_null_counts: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, for the way from an executor to the driver."""
        return {
            "info": self.info.to_json(),
            "null_counts": self.null_counts,
            "element_null_counts": self.element_null_counts,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ShardReport:
        """Read what `to_json` wrote."""
        info = parse_shard(value["info"])
        return cls(info, value["null_counts"], value["element_null_counts"])


@dataclass(frozen=True)
class FullShard:
    """A shard that is complete in memory.

    Attributes
    ----------
    names, encodings : tuple of str
        Its columns in stored order.
    samples : int
        Their number.
    content : list of buffers
        The uncompressed file.
    null_counts, element_null_counts : dict of str to int
        As in `ShardReport`.
    """

    names: tuple[str, ...]
    encodings: tuple[str, ...]
    samples: int
    content: list[Buffer]
    null_counts: dict[str, int] = field(default_factory=dict)
    element_null_counts: dict[str, int] = field(default_factory=dict)

    def pack(self, basename: str, format_: ShardFormat) -> tuple[ShardReport, str, list[Buffer]]:
        """Compress and hash the shard.

        Parameters
        ----------
        basename : str
            Name of the uncompressed file.

        Returns
        -------
        report : ShardReport
            What the index is to say.
        name : str
            Name of the file that is to be stored.
        content : list of buffers
            What it is to hold.

        Raises
        ------
        WriteError
            If a file of 4 GiB or more would result.
        """
        size = sum(map(len, self.content))
        if size > MAX_SHARD_BYTES:
            raise WriteError(
                f"the shard {basename} would take {size} bytes, but an MDS shard must be smaller "
                "than 4 GiB: set a size limit, or store smaller values"
            )
        raw = FileInfo(basename, size, digests(format_.hashes, self.content))
        name, content, packed = basename, self.content, None
        if format_.compression:
            name = format_.file_name(basename)
            content = [compress(format_.compression, self.content)]
            packed = FileInfo(name, len(content[0]), digests(format_.hashes, content))
        info = ShardInfo(
            column_names=self.names,
            column_encodings=self.encodings,
            column_sizes=tuple(_sizes(self.encodings)),
            samples=self.samples,
            raw_data=raw,
            zip_data=packed,
            compression=format_.compression,
            hashes=format_.hashes,
            size_limit=format_.size_limit,
        )
        return ShardReport(info, self.null_counts, self.element_null_counts), name, content


def _sizes(encodings: tuple[str, ...]) -> list[int | None]:
    return [parse_encoding(text).size for text in encodings]
