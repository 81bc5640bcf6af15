"""Write record batches as shard files, one writer per task or process."""

from __future__ import annotations

import pyarrow as pa

from mdstorm_backend.format.schema import Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.write.batch_shards import BatchShards
from mdstorm_backend.write.shard_format import FullShard, ShardFormat, ShardReport


class ShardWriter:
    """Writes record batches as shards of at most `shard_size` bytes.

    A single sample larger than that gets a shard of its own. Memory: one shard and one batch.

    Parameters
    ----------
    location : Location
        Directory of the dataset.
    schema : Schema
        Plan of the columns, in the order of the DataFrame.
    prefix : str
        Start of the shards' names, unique to this writer: ``<prefix>.<sequence>.mds``.
    shard_size : int
        Largest size of an uncompressed shard in bytes.
    compression : str or None
        Codec of the format, such as ``"zstd:1"``.
    hashes : tuple of str
        Names of the hashes that the index is to hold of every file.
    """

    def __init__(
        self,
        location: Location,
        schema: Schema,
        *,
        prefix: str,
        shard_size: int,
        compression: str | None = None,
        hashes: tuple[str, ...] = (),
    ) -> None:
        self._location = location
        self._prefix = prefix
        self._format = ShardFormat(shard_size, compression, hashes)
        self._shards = BatchShards(schema, self._format, self._store)
        self._reports: list[ShardReport] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of `batch`, whose columns are those of the schema in any order."""
        self._shards.write(batch)

    def close(self) -> list[ShardReport]:
        """Write the last shard and return a report of each one."""
        self._shards.flush()
        return self._reports

    def _store(self, shard: FullShard) -> None:
        basename = f"{self._prefix}.{len(self._reports):05}.mds"
        report, name, content = shard.pack(basename, self._format)
        self._location.write(name, content)
        self._reports.append(report)
