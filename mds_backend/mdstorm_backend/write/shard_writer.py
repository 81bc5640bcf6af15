"""Store shards: compress, hash and write them, in threads for `ShardStore`."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pyarrow as pa

from mdstorm_backend.errors import DatasetExistsError
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.storage import Buffer, Location
from mdstorm_backend.write import directories
from mdstorm_backend.write.batch_shards import BatchShards
from mdstorm_backend.write.full_shard import FullShard, Packed, ShardFormat, ShardReport


def write_shards(
    batches: Iterable[pa.RecordBatch],
    location: Location,
    schema: Schema,
    format_: ShardFormat,
    prefix: str,
    run: Callable[[Callable[[], Packed]], Packed] = lambda pack: pack(),
) -> list[ShardReport]:
    """Write record batches as shards of at most the size limit of their format.

    A single sample larger than the limit gets its own shard. Memory: one shard and one batch.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        The rows, with the columns of the schema in any order.
    location : Location
        Directory of the dataset.
    schema : Schema
        Plan of the columns, in the order of the DataFrame.
    format_ : ShardFormat
        Settings of all shards.
    prefix : str
        Start of the shards' names, unique to this call: ``<prefix>.<sequence>.mds``.
    run : callable
        Calls the function that packs a shard, and returns its result. A codec may take half a
        minute for a shard, in which nothing else ends the thread.

    Returns
    -------
    list of ShardReport
        One report per shard.

    Raises
    ------
    EncodingError
        If a value does not fit the encoding of its column.
    WriteError
        If a shard cannot be written.
    """
    reports: list[ShardReport] = []

    def store(shard: FullShard) -> None:
        report, name, content = run(partial(shard.pack, shard_name(prefix, len(reports)), format_))
        with directories.file_errors(location, name):
            directories.retried(location, partial(location.write, name, content))
        reports.append(report)

    shards = BatchShards(schema, format_, store)
    for batch in batches:
        shards.write(batch)
    shards.flush()
    return reports


def shard_name(prefix: str, number: int) -> str:
    """Return the file name of the uncompressed shard of a number."""
    return f"{prefix}.{number:05}.mds"


#: Default number of threads: enough to hide the latency of an object store, few enough for memory,
#: since each holds a shard.
_WORKERS = 4

_logger = logging.getLogger(__name__)


class ShardStore:
    """Packs and writes shards to directories in threads, and removes them if writing fails.

    The caller waits while as many shards are in progress as there are threads. A failure is raised
    by the next call.

    Parameters
    ----------
    locations : sequence of Location
        The directories; every file is written to each.
    format_ : ShardFormat
        Settings of all shards.
    prefix : str
        Start of the shards' names, as in `write_shards`.
    max_workers : int or None
        Number of threads.
    retry : int
        Number of retries for writing a file to remote storage; writes to a local disk are not
        retried.
    exclusive : bool
        Lock directories on a local disk against other writers until the end.
    on_file : callable
        Called in a thread with the size in bytes of every file written.

    Raises
    ------
    WriteError
        If a directory cannot be created or written to.
    DatasetExistsError
        If another writer holds a directory.
    """

    def __init__(
        self,
        locations: Sequence[Location],
        format_: ShardFormat,
        prefix: str,
        *,
        max_workers: int | None = None,
        retry: int = directories.DEFAULT_RETRY,
        exclusive: bool = False,
        on_file: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._locations = tuple(locations)
        self._format = format_
        self._prefix = prefix
        self._retry = retry or 0
        self._on_file = on_file
        self._workers = max_workers or _WORKERS
        self._pool: ThreadPoolExecutor | None = None
        #: Shards in progress; `_reports` holds those before them, which are stored.
        self._futures: deque[Future[ShardReport]] = deque()
        self._reports: list[ShardReport] = []
        self._written: list[tuple[Location, str]] = []
        self._made: list[Location] = []
        self._claims: list[directories.Claim] = []
        try:
            for location in self._locations:
                if directories.make_directory(location):
                    self._made.append(location)
                if exclusive:
                    self._claims.append(directories.Claim(location))
        except BaseException:
            self.remove_all()
            raise

    def put(self, shard: FullShard) -> None:
        """Pack and write a shard in a thread.

        Raises
        ------
        WriteError
            If an earlier shard could not be written.
        """
        while self._futures and (self._futures[0].done() or len(self._futures) == self._workers):
            self._collect()
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="mdstorm-write")
        name = shard_name(self._prefix, len(self._reports) + len(self._futures))
        self._futures.append(self._pool.submit(self._pack_and_write, name, shard))

    def finish(self) -> list[ShardReport]:
        """Wait for all shards and return their reports in order.

        Raises
        ------
        WriteError
            If a shard could not be written.
        """
        while self._futures:
            self._collect()
        self._stop()
        return self._reports

    def _collect(self) -> None:
        """Wait for the oldest shard in progress, and collect its report or raise its failure."""
        self._reports.append(self._futures[0].result())
        self._futures.popleft()

    def write(self, name: str, content: Sequence[Buffer]) -> None:
        """Write a file to every directory, in the caller's thread."""
        for location in self._locations:
            self._write_one(location, name, content)
        self._on_file(sum(map(len, content)))

    def close(self) -> None:
        """Release the locks on the directories."""
        for claim in self._claims:
            claim.release()

    def remove_all(self) -> None:
        """Wait for the threads and remove every written file; failures are logged."""
        self._stop()
        self._futures.clear()
        for location, name in self._written:
            self._try(location, partial(location.remove, name))
        self.close()
        for location in self._made:
            self._try(location, location.remove_directory_if_empty)
        self._written = []

    def _try(self, location: Location, remove: Callable[[], None]) -> None:
        try:
            remove()
        except Exception:
            _logger.warning("could not clean up %s after a failure", location.url, exc_info=True)

    def _stop(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _pack_and_write(self, basename: str, shard: FullShard) -> ShardReport:
        report, name, content = shard.pack(basename, self._format)
        self.write(name, content)
        return report

    def _write_one(self, location: Location, name: str, content: Sequence[Buffer]) -> None:
        with directories.file_errors(location, name):
            if directories.retried(location, partial(location.exists, name), self._retry):
                raise DatasetExistsError(
                    f"{location.file_url(name)} appeared while this dataset was being written: "
                    "another writer has the same directory. It is left as it is; write to "
                    "another directory"
                )
            self._written.append((location, name))
            directories.retried(location, partial(location.write, name, content), self._retry)
