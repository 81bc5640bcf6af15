"""A full shard before it is stored: the settings of its writer, its bytes and its report."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mdstorm_backend.errors import WriteError
from mdstorm_backend.format.compression import check_compression, compress, digests, extension
from mdstorm_backend.format.encodings import parse_encoding
from mdstorm_backend.format.index import parse_shard
from mdstorm_backend.format.shard_info import INDEX_VERSION, MAX_SHARD_BYTES, FileInfo, ShardInfo
from mdstorm_backend.storage import Buffer


@dataclass(frozen=True)
class ShardFormat:
    """The settings that all shards of a writer share.

    Attributes
    ----------
    size_limit : int or None
        Largest size of an uncompressed shard in bytes; None puts everything into one shard.
    compression : str or None
        Codec of the format, such as ``"zstd:1"``.
    hashes : tuple of str
        Names of the hashes that the index records for every file.
    """

    size_limit: int | None
    compression: str | None = None
    hashes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_compression(self.compression)

    def file_name(self, basename: str) -> str:
        """Return the name of the stored file for the shard `basename`, with its compression."""
        return f"{basename}.{extension(self.compression)}" if self.compression else basename

    def header(
        self,
        names: tuple[str, ...],
        encodings: tuple[str, ...],
        extra: dict[str, Any] | None = None,
    ) -> bytes:
        """Return the header of a shard, with `extra` under the key ``"mdstorm"``."""
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
    """A written shard and its null counts, reported by the writer for the commit.

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
        """Return a JSON object, to send from an executor to the driver."""
        return {
            "info": self.info.to_json(),
            "null_counts": self.null_counts,
            "element_null_counts": self.element_null_counts,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ShardReport:
        """Return the report for an output of `to_json`."""
        info = parse_shard(value["info"])
        return cls(info, value["null_counts"], value["element_null_counts"])


#: The report of a shard, the name of its file, and the content.
Packed: TypeAlias = tuple[ShardReport, str, list[Buffer]]


@dataclass(frozen=True)
class FullShard:
    """A complete shard in memory.

    Attributes
    ----------
    names, encodings : tuple of str
        Names and encodings of the columns, in stored order.
    samples : int
        Number of samples.
    content : list of buffers
        Content of the uncompressed file.
    null_counts, element_null_counts : dict of str to int
        As in `ShardReport`.
    """

    names: tuple[str, ...]
    encodings: tuple[str, ...]
    samples: int
    content: list[Buffer]
    null_counts: dict[str, int] = field(default_factory=dict)
    element_null_counts: dict[str, int] = field(default_factory=dict)

    def pack(self, basename: str, format_: ShardFormat) -> Packed:
        """Compress and hash the shard.

        Parameters
        ----------
        basename : str
            Name of the uncompressed file.

        Returns
        -------
        report : ShardReport
            The shard's entry for the index.
        name : str
            Name of the file to store.
        content : list of buffers
            Content of that file.

        Raises
        ------
        WriteError
            If the uncompressed file would take 4 GiB or more.
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
