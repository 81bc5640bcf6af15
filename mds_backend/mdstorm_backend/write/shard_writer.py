"""Write shards as named files: those of record batches, and any by the threads of a sink."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from mdstorm_backend.format.schema import Schema
from mdstorm_backend.storage import Buffer, Location
from mdstorm_backend.write.batch_shards import BatchShards
from mdstorm_backend.write.file_sink import FileSink
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


class ShardStore:
    """Packs shards and writes them, by the threads of a sink.

    Parameters
    ----------
    sink : FileSink
        Where they go.
    format_ : ShardFormat
        What they have in common.
    name : callable
        Name of the uncompressed shard of a number.
    """

    def __init__(self, sink: FileSink, format_: ShardFormat, name: Callable[[int], str]) -> None:
        self._sink = sink
        self._format = format_
        self._name = name
        self._count = 0
        self._reports: dict[int, ShardReport] = {}

    def put(self, shard: FullShard) -> None:
        """Let a thread pack and write a shard.

        Raises
        ------
        WriteError
            If an earlier one could not be written.
        """
        number, self._count = self._count, self._count + 1
        self._sink.submit(partial(self._pack, number, shard))

    def finish(self) -> list[ShardReport]:
        """Wait for all shards and return their reports in order.

        Raises
        ------
        WriteError
            If one could not be written.
        """
        self._sink.wait()
        return [self._reports[number] for number in range(self._count)]

    def _pack(self, number: int, shard: FullShard) -> tuple[str, list[Buffer]]:
        report, name, content = shard.pack(self._name(number), self._format)
        self._reports[number] = report
        return name, content
