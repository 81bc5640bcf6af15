"""What an `MDSWriter` has under way: shards, the threads that store them, and its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from mdstorm_backend.display.live_progress import FileProgress
from mdstorm_backend.errors import ArgumentTypeError, WriteError
from mdstorm_backend.format.index import INDEX_NAME
from mdstorm_backend.storage import Location
from mdstorm_backend.write.commit import build_index
from mdstorm_backend.write.file_sink import FileSink
from mdstorm_backend.write.mixed_shards import MixedShards
from mdstorm_backend.write.shard_format import FullShard, ShardFormat
from mdstorm_backend.write.shard_writer import ShardStore


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
        self._shards = MixedShards(columns, format_, self._emit)
        self._state = "open"

    def write(self, sample: Mapping[str, Any]) -> None:
        """Append a sample."""
        if self._state != "open":
            raise self._closed_error()
        self._shards.write(sample)

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
        before = self._shards.num_batch_rows
        try:
            self._shards.write_batch(table)
        except BaseException:
            if self._shards.num_batch_rows > before:
                self._abandon()
            raise

    def finish(self) -> None:
        """Write the last shard, wait for all, and write the index."""
        if self._state == "finished":
            return
        if self._state != "open":
            raise self._closed_error()
        try:
            self._shards.flush()
            index = build_index(self._shards.plan, self._store.finish())
            self.sink.write(INDEX_NAME, [index.to_bytes()])
            self.sink.close()
        except BaseException:
            self._abandon()
            raise
        self._state = "finished"
        self._progress.close()

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


def shard_name(number: int) -> str:
    """Return the name of an uncompressed shard."""
    return f"shard.{number:05}.mds"
