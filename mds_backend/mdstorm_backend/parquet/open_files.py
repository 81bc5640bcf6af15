"""`OpenFiles`: open the files of a Parquet dataset, or the copies of remote files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.base import cached_property
from mdstorm_backend.cache import CacheOptions, ShardFiles, shard_files
from mdstorm_backend.datasets import fingerprint_of
from mdstorm_backend.errors import CorruptDatasetError, DatasetChangedError, DatasetNotFoundError
from mdstorm_backend.format.shard_info import FileInfo, ShardInfo
from mdstorm_backend.parquet import footers
from mdstorm_backend.storage import Location, PinnedFile, Pins

#: Number of files that stay open; a file's row groups are mostly read in sequence.
_KEPT = 8


class OpenFiles:
    """Opens a dataset's files by name. Thread-safe and fork-safe.

    Parameters
    ----------
    source : FileSource
        The files.
    """

    def __init__(self, source: FileSource) -> None:
        self._source = source
        self._open = lru_cache(_KEPT)(source.open)

    def emptied(self) -> OpenFiles:
        """Return one for the same files, none of which is open."""
        return OpenFiles(self._source)

    @contextmanager
    def reader(self, name: str) -> Iterator[pq.ParquetFile]:
        """Yield a new reader of a file, for use by one thread.

        Raises
        ------
        DatasetNotFoundError
            If the file is missing.
        DatasetChangedError
            If it was changed after the dataset was opened, or while it was read.
        CorruptDatasetError
            If it is not a Parquet file.
        UnsupportedTableError
            If it has another size than the table's manifest or log records.
        """
        opened = self._open(name)
        opened.check()
        try:
            # Use a new reader for each row group, because threads must not share a reader.
            yield pq.ParquetFile(
                opened.input(), metadata=opened.footer, coerce_int96_timestamp_unit="us"
            )
        finally:
            opened.check()


class OpenFile(NamedTuple):
    """An open file, or the copy of one.

    Attributes
    ----------
    footer : pyarrow.parquet.FileMetaData
        Its footer.
    input : callable
        Returns what a reader reads from.
    check : callable
        Raises DatasetChangedError if the file was written to.
    """

    footer: pq.FileMetaData
    input: Callable[[], Any]
    check: Callable[[], object]


@dataclass(eq=False)
class FileSource:
    """The files of a dataset.

    Files on a local disk are read in place, unless there is a cache directory. Others are copied as
    a whole to the shard cache.

    Attributes
    ----------
    location : Location
        The directory that contains the files.
    files : mapping of str to ParquetFileInfo
        The files by name.
    state : str
        Identifies the content of the files, for the cache.
    cache : CacheOptions or None
        How files are cached.
    pins : Pins or None
        The pins of files on a local disk, unless they belong to a table.
    """

    location: Location
    files: Mapping[str, footers.ParquetFileInfo]
    state: str
    cache: CacheOptions | None
    pins: Pins | None

    def open(self, name: str) -> OpenFile:
        """Open a file; for errors see `OpenFiles.reader`."""
        is_cached = self.cache is not None and self.cache.directory is not None
        try:
            if self.location.is_local_disk and not is_cached:
                return self._in_place(name)
            return self._copy(name)
        except (DatasetNotFoundError, FileNotFoundError) as error:
            raise self._missing(name) from error

    def _in_place(self, name: str) -> OpenFile:
        # A table's version identifies its files, so these are compared only while they are open.
        opened = PinnedFile(self.pins or Pins(self.location.path), name)
        if opened.size != self.files[name].size:
            raise self._of_another_size(name)
        tail = pa.py_buffer(footers.tail_of(opened.read_last, opened.size))
        footer = footers.parsed(tail, self.location.file_url(name))
        return OpenFile(footer, lambda: opened.file, opened.check)

    def _copy(self, name: str) -> OpenFile:
        try:
            data = pa.py_buffer(self._copies.open(self._info(name)))
        except CorruptDatasetError as error:
            raise self._of_another_size(name) from error
        footer = footers.parsed(data, self.location.file_url(name))
        return OpenFile(footer, lambda: pa.BufferReader(data), lambda: None)

    @cached_property
    def _copies(self) -> ShardFiles:
        # There is no index, and therefore no time when it was written.
        infos, cache = [self._info(name) for name in self.files], self.cache
        return shard_files(
            self.location,
            self.state,
            cache,
            shards=infos,
            written="",
            pins=self.pins,
            tags={name: file.tag for name, file in self.files.items()},
        )

    def _info(self, name: str) -> ShardInfo:
        return ShardInfo((), (), (), 0, FileInfo(name, self.files[name].size, {}))

    def _missing(self, name: str) -> DatasetNotFoundError:
        url, version = self.location.file_url(name), self.files[name].table_version
        if version is not None:
            return footers.missing_file(url, version)
        return DatasetNotFoundError(
            f"{url} is gone, but existed when the dataset was opened: it was removed, or the "
            "dataset was replaced. Open the dataset again, or restore the file",
            url=url,
        )

    def _of_another_size(self, name: str) -> CorruptDatasetError | DatasetChangedError:
        """Return the error for a file that has another size than was listed."""
        file, url = self.files[name], self.location.file_url(name)
        footers.check_size(self.location, file)
        found = f"no longer has {file.size} bytes, as it did when the dataset was opened"
        if file.table_version is not None:
            return CorruptDatasetError.of_file(url, f"{found}: it was rewritten or truncated")
        return DatasetChangedError(
            f"{url} {found}: it was rewritten or truncated. Open the dataset again. Next time, "
            "write to a new directory instead",
            url=url,
        )


def files_identity(table_version: int | None, files: Iterable[footers.ParquetFileInfo]) -> str:
    """Identify a table's version, and the sizes, times and tags of the files."""
    listed = repr([(file.size, file.identity) for file in files])
    version = "" if table_version is None else f"{table_version} "
    return f"{version}{fingerprint_of(listed.encode())}"
