"""Write shards as named files: those of record batches, and any by the threads of a sink."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from mdstorm_backend.format.schema import Schema
from mdstorm_backend.storage import Buffer, Location
from mdstorm_backend.write.batch_shards import BatchShards
from mdstorm_backend.write.directories import file_errors, retried
from mdstorm_backend.write.file_sink import FileSink
from mdstorm_backend.write.shard_format import FullShard, ShardFormat, ShardReport

#: What packing a shard returns: its report, the name of its file, and what the file holds.
Packed: TypeAlias = tuple[ShardReport, str, list[Buffer]]


class ShardWriter:
    """Writes record batches as shards of at most `shard_size` bytes.

    A single sample larger than that gets a shard of its own. Memory: one shard and one batch.

    Parameters
    ----------
    location : Location
        Directory of the dataset.
    schema : Schema
        Plan of the columns, in the order of the DataFrame.
    format_ : ShardFormat
        What all shards have in common.
    prefix : str
        Start of the shards' names, unique to this writer: ``<prefix>.<sequence>.mds``.
    as_given : frozenset of str
        Columns whose encoding is written exactly as planned, including arrays of one length.
    pack : callable, optional
        Called with the function that packs a shard, and returns what that returns. Compression may
        take half a minute, which this may leave to another thread and give up.

    Raises
    ------
    EncodingError
        If a value does not fit the encoding of its column.
    WriteError
        If a shard cannot be written.
    """

    def __init__(
        self,
        location: Location,
        schema: Schema,
        format_: ShardFormat,
        prefix: str,
        as_given: frozenset[str] = frozenset(),
        pack: Callable[[Callable[[], Packed]], Packed] | None = None,
    ) -> None:
        self._pack = pack
        self._location = location
        self._prefix = prefix
        self._format = format_
        self._shards = BatchShards(schema, format_, self._store, as_given)
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
        packed = partial(shard.pack, basename, self._format)
        report, name, content = packed() if self._pack is None else self._pack(packed)
        with file_errors(self._location, name):
            retried(self._location, partial(self._location.write, name, content))
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
