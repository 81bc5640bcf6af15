"""What an `MDSWriter` has under way: shards, the threads that store them, and its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mdstorm_backend.display.live_progress import FileProgress
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, WriteError
from mdstorm_backend.format.index import INDEX_NAME
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.write.batch_shards import TableShards
from mdstorm_backend.write.commit import build_index
from mdstorm_backend.write.sample_shards import SampleShards
from mdstorm_backend.write.shard_format import FullShard, ShardFormat
from mdstorm_backend.write.shard_writer import FileSink, ShardStore


class Writing:
    """A dataset that is being written; see `MDSWriter` for its methods.

    Parameters
    ----------
    columns : mapping of str to str, optional
        The encodings that the user gives.
    format_ : ShardFormat
        What all shards have in common.
    targets : sequence of Location
        Where the files go.
    max_workers : int, optional
        Threads that compress, hash and write shards.
    retry : int
        How often writing a file is tried again.
    progress_bar : bool
        Whether to show how many files and bytes have been written.
    """

    def __init__(
        self,
        columns: Mapping[str, str] | None,
        format_: ShardFormat,
        targets: Sequence[Location],
        *,
        max_workers: int | None,
        retry: int,
        progress_bar: bool,
    ) -> None:
        self._progress = FileProgress(shown=progress_bar)
        self.sink = FileSink(
            targets,
            max_workers=max_workers,
            retry=retry,
            exclusive=True,
            on_file=self._progress.add,
        )
        self._store = ShardStore(self.sink, format_, shard_name)
        self._columns, self._format = columns, format_
        #: What is written: samples, or tables of Arrow.
        self._samples: SampleShards | None = None
        self._tables: TableShards | None = None
        self._state = "open"

    def write(self, sample: Mapping[str, Any]) -> None:
        """Append a sample."""
        if self._state != "open":
            raise self._closed_error()
        samples = self._samples or self._first_samples()
        samples.write(sample)
        self._samples = samples

    def _first_samples(self) -> SampleShards:
        if self._tables is not None:
            raise _other_kind("Arrow data", "call write_batch with pyarrow.Table.from_pylist([…])")
        if self._columns is None:
            raise InvalidArgumentError(
                "columns are not known: give the encoding of every column with columns={…}, or "
                "write Arrow data with write_batch"
            )
        return SampleShards(self._columns, self._format, self._emit)

    def write_batch(self, data: pa.Table | pa.RecordBatch) -> None:
        """Append all rows of Arrow data."""
        if not isinstance(data, (pa.Table, pa.RecordBatch)):
            raise ArgumentTypeError(
                f"write_batch takes a pyarrow Table or RecordBatch, found {type(data).__name__}: "
                "use pyarrow.Table.from_pandas(…) or from_pydict(…), or write(sample)"
            )
        if self._state != "open":
            raise self._closed_error()
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        tables = self._tables or self._first_tables(table.schema)
        before = tables.num_rows
        try:
            tables.write(table)
        except BaseException:
            if tables.num_rows > before:
                self._abandon()
            raise
        self._tables = tables

    def _first_tables(self, schema: pa.Schema) -> TableShards:
        if self._samples is not None:
            raise _other_kind("samples", "call write with each of data.to_pylist()")
        return TableShards(schema, self._columns, self._format, self._emit)

    def finish(self) -> None:
        """Write the last shard, wait for all, and write the index."""
        if self._state == "finished":
            return
        if self._state != "open":
            raise self._closed_error()
        try:
            index = build_index(self._flush(), self._store.finish())
            self.sink.write(INDEX_NAME, [index.to_bytes()])
            self.sink.close()
        except BaseException:
            self._abandon()
            raise
        self._state = "finished"
        self._progress.close()

    def _flush(self) -> Schema | None:
        """Emit the last shard, and return the logical schema, which samples do not have."""
        if self._samples is not None:
            self._samples.flush()
        if self._tables is None:
            return None
        self._tables.flush()
        return self._tables.plan

    def leave_unfinished(self) -> None:
        """Remove what was written, unless it is finished."""
        if self._state == "open":
            self._abandon()

    def _closed_error(self) -> WriteError:
        return WriteError(
            f"this MDSWriter is {self._state} and takes no more samples: write another dataset "
            "with a new writer"
        )

    def _emit(self, shard: FullShard) -> None:
        try:
            self._store.put(shard)
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        self._state = "abandoned"
        self.sink.remove_all()
        self._progress.close()


def _other_kind(first: str, instead: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"this MDSWriter has {first}, and takes either samples or Arrow data. Write the rest in "
        f"the same way: {instead}"
    )


def shard_name(number: int) -> str:
    """Return the name of an uncompressed shard."""
    return f"shard.{number:05}.mds"
