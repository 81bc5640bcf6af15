"""A full shard: its writer's settings, its bytes, its report, and how it is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeAlias

from mdstorm_backend.base.pools import Threads
from mdstorm_backend.errors import DatasetExistsError, InvalidArgumentError, WriteError
from mdstorm_backend.format import compression as codecs
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.index import parse_shard
from mdstorm_backend.format.shard_info import INDEX_VERSION, MAX_SHARD_BYTES, FileInfo, ShardInfo
from mdstorm_backend.storage import Buffer, Location
from mdstorm_backend.write import directories

#: That of MosaicML Streaming's writer.
_DEFAULT_SHARD_SIZE = 1 << 26


@dataclass(frozen=True)
class ShardFormat:
    """The settings shared by all shards of a writer.

    Attributes
    ----------
    size_limit : int or None
        Maximum size of an uncompressed shard in bytes; None puts everything into one shard.
    compression : str or None
        Codec of the format, such as ``"zstd:1"``.
    hashes : tuple of str
        Names of the hashes that the index records for every file.
    """

    size_limit: int | None
    compression: str | None = None
    hashes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, size_limit: int | None, compression: str | None, hashes: Iterable[str] | None
    ) -> ShardFormat:
        """Return the settings that a user chose.

        Raises
        ------
        InvalidArgumentError
            If the compression or a hash is unknown, or the hashes are not unique and sorted.
        """
        codecs.check_compression(compression)
        return cls(size_limit, compression, codecs.check_hashes(hashes))

    def file_name(self, basename: str) -> str:
        """Return the stored file's name for the shard `basename`, with any compression suffix."""
        return f"{basename}.{codecs.extension(self.compression)}" if self.compression else basename

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
            "column_sizes": column_sizes(encodings),
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
        """Return a JSON object that an executor can send to the driver."""
        return {**vars(self), "info": self.info.to_json()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ShardReport:
        """Return the report described by an output of `to_json`."""
        return cls(parse_shard(value["info"]), value["null_counts"], value["element_null_counts"])


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

    def pack(self, basename: str, format_: ShardFormat) -> tuple[ShardReport, str, list[Buffer]]:
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
        raw = FileInfo(basename, size, codecs.digests(format_.hashes, self.content))
        name, content, packed = basename, self.content, None
        if format_.compression:
            name = format_.file_name(basename)
            content = [codecs.compress(format_.compression, self.content)]
            packed = FileInfo(name, len(content[0]), codecs.digests(format_.hashes, content))
        info = ShardInfo(
            column_names=self.names,
            column_encodings=self.encodings,
            column_sizes=tuple(column_sizes(self.encodings)),
            samples=self.samples,
            raw_data=raw,
            zip_data=packed,
            compression=format_.compression,
            hashes=format_.hashes,
            size_limit=format_.size_limit,
        )
        return ShardReport(info, self.null_counts, self.element_null_counts), name, content


#: Takes full shards, in order.
Emit: TypeAlias = Callable[[FullShard], None]


class Shards(Protocol):
    """Collects rows until they fill a shard, which it emits."""

    def write(self, rows: Any, /) -> None:
        """Append rows."""

    def flush(self) -> None:
        """Emit the collected rows as a shard, if there are any."""


def column_sizes(encodings: Iterable[str]) -> list[int | None]:
    """Return the size in bytes of each column's values, or None where the size varies."""
    return [parse_encoding(text).size for text in encodings]


def shard_name(prefix: str, number: int) -> str:
    """Return the file name of the uncompressed shard `number`."""
    return f"{prefix}.{number:05}.mds"


def checked_shard_size(shard_size: int | None) -> int:
    """Return a shard size in bytes, limited to 4 GiB; None and 0 mean the default.

    Raises
    ------
    InvalidArgumentError
        If `shard_size` is negative or not a whole number; numeric strings are accepted.
    """
    try:
        size = int(0 if shard_size is None else shard_size)
        whole = isinstance(shard_size, (str, type(None))) or size == shard_size
    except (OverflowError, TypeError, ValueError):
        size, whole = -1, False
    if size < 0 or not whole or isinstance(shard_size, bool):
        raise InvalidArgumentError(
            f"the shard size must be a whole number of bytes or None, found {shard_size!r}"
        )
    return min(size or _DEFAULT_SHARD_SIZE, MAX_SHARD_BYTES)


#: Default number of threads: enough to hide the latency of an object store, but few enough to limit
#: memory, because each thread holds a shard.
DEFAULT_WORKERS = 4


@dataclass
class ShardStore:
    """Packs and writes shards to directories in threads, and removes them if writing fails.

    Directories are created for the first shard, or by `claim`. The caller waits while as many
    shards are in progress as there are threads. A failure is raised by the next call.

    Attributes
    ----------
    locations : tuple of Location
        The directories; every file is written to each.
    format_ : ShardFormat
        Settings of all shards.
    prefix : str
        Start of the shards' names, unique to this store: see `shard_name`.
    max_workers : int
        Number of threads; with 0, the caller's thread packs and writes.
    retry : int
        Number of retries for writing a file to remote storage; writes to a local disk are not
        retried.
    on_file : callable
        Called in a thread with the size in bytes of every file written.
    makes_directories : bool
        Whether to create the directories. If not, a directory that this machine does not have is an
        error: it may be another machine's.
    """

    locations: tuple[Location, ...]
    format_: ShardFormat
    prefix: str
    max_workers: int = DEFAULT_WORKERS
    retry: int = directories.DEFAULT_RETRY
    on_file: Callable[[int], None] = lambda size: None
    makes_directories: bool = True
    _pool: Threads | None = field(default=None, init=False)
    #: Shards in progress. The shards before them are stored, with their reports in `_reports`.
    _futures: list[Future[ShardReport]] = field(default_factory=list, init=False)
    _reports: list[ShardReport] = field(default_factory=list, init=False)
    _written: list[tuple[Location, str]] = field(default_factory=list, init=False)
    _made: list[Location] = field(default_factory=list, init=False)
    _claims: list[directories.Claim] = field(default_factory=list, init=False)

    def claim(self) -> None:
        """Create the directories, and lock those on a local disk until `close`.

        Raises
        ------
        WriteError
            If a directory cannot be created or written to.
        DatasetExistsError
            If another writer holds a directory.
        """
        try:
            self._make_directories()
            for location in self.locations:
                self._claims.append(directories.Claim(location))
        except BaseException:
            self.remove_all()
            raise

    def _make_directories(self) -> None:
        for location in self.locations:
            if directories.make_directory(location):
                self._made.append(location)

    def put(self, shard: FullShard) -> None:
        """Pack and write a shard, in a thread if there are any.

        Raises
        ------
        WriteError
            If a directory cannot be created, or an earlier shard could not be written.
        """
        while self._futures and (self._futures[0].done() or len(self._futures) == self.max_workers):
            self._collect()
        number = len(self._reports) + len(self._futures)
        if self.makes_directories and number == 0:
            self._make_directories()
        name = shard_name(self.prefix, number)
        if self.max_workers == 0:
            self._reports.append(self._pack_and_write(name, shard))
            return
        if self._pool is None:
            self._pool = Threads(self.max_workers, thread_name_prefix="mdstorm-write")
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
        """Wait for the oldest shard in progress, and collect its report or raise its error."""
        self._reports.append(self._futures[0].result())
        del self._futures[0]

    def store_rows(self, make: Callable[[Emit], Shards], rows: Iterable[Any]) -> list[ShardReport]:
        """Store rows in shards cut by `make`, and remove the shards upon failure.

        Parameters
        ----------
        make : callable
            Called with `put`; returns what collects rows in shards.
        rows : iterable
            Record batches or samples, as the result of `make` takes them.

        Raises
        ------
        EncodingError
            If a value does not fit the encoding of its column.
        WriteError
            If a shard cannot be written.
        """
        try:
            shards = make(self.put)
            for row in rows:
                shards.write(row)
            shards.flush()
            return self.finish()
        except BaseException:
            self.remove_all()
            raise

    def write(self, name: str, content: Sequence[Buffer]) -> None:
        """Write a file to every directory, in the caller's thread."""
        for location in self.locations:
            with directories.file_errors(location, name):
                if directories.retried(location, partial(location.exists, name), self.retry):
                    raise DatasetExistsError(
                        f"{location.file_url(name)} appeared while this dataset was being written: "
                        "another writer is using the same directory. That file was kept; write to "
                        "a different directory"
                    )
                self._written.append((location, name))
                directories.retried(location, partial(location.write, name, content), self.retry)
        self.on_file(sum(map(len, content)))

    def close(self) -> None:
        """Release the locks on the directories."""
        for claim in self._claims:
            claim.release()

    def remove_all(self) -> None:
        """Wait for the threads and remove every written file; failures are logged."""
        self._stop()
        self._futures.clear()
        for location, name in self._written:
            with directories.cleaning_up(location):
                location.remove(name)
        self.close()
        for location in self._made:
            with directories.cleaning_up(location):
                location.remove_directory_if_empty()
        self._written = []

    def _stop(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _pack_and_write(self, basename: str, shard: FullShard) -> ShardReport:
        report, name, content = shard.pack(basename, self.format_)
        self.write(name, content)
        return report
