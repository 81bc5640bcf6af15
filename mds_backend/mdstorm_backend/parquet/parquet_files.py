"""Open Parquet files, and keep recent footers parsed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.base.threads import RenewedInForks
from mdstorm_backend.errors import CorruptDatasetError, DatasetNotFoundError
from mdstorm_backend.format.shard_info import FileInfo, ShardInfo
from mdstorm_backend.parquet.footers import ParquetFileInfo, parsed
from mdstorm_backend.storage import Buffer, Location

if TYPE_CHECKING:
    from mdstorm_backend.cache import CacheOptions, ShardFiles

#: Files whose footers stay parsed: row groups of one file are mostly read in sequence.
_KEPT = 8


class ParquetFiles(RenewedInForks):
    """Opens the files of a dataset. Safe to share between threads, and to fork.

    Remote files come through the shard cache, as a whole.

    Parameters
    ----------
    location : Location
        Where they are.
    files : sequence of ParquetFileInfo
        The files.
    fingerprint : str
        Identity of their content.
    cache : CacheOptions or None
        How they are downloaded to this machine.
    table_version : int or None
        The version of the table that they are, if they are one.
    """

    def __init__(
        self,
        location: Location,
        files: Sequence[ParquetFileInfo],
        fingerprint: str,
        cache: CacheOptions | None,
        table_version: int | None,
    ) -> None:
        self._location = location
        self._infos = {file.name: _as_shard(file) for file in files}
        self._fingerprint = fingerprint
        self._cache = cache
        self._table_version = table_version
        super().__init__()

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._opened: OrderedDict[str, tuple[pa.Buffer, pq.FileMetaData]] = OrderedDict()

    @cached_property
    def _source(self) -> ShardFiles:
        from mdstorm_backend.cache import shard_files

        infos = self._infos.values()
        return shard_files(self._location, self._fingerprint, self._cache, shards=infos)

    def open(self, name: str) -> pq.ParquetFile:
        """Open a file, for one thread.

        Raises
        ------
        DatasetNotFoundError
            If it is missing.
        CorruptDatasetError
            If it is not a Parquet file, or has another size than when the dataset was opened.
        CredentialsError, StorageError
            If it cannot be downloaded to this machine.
        """
        with self._lock:
            opened = self._opened.get(name)
        if opened is None:
            content = pa.py_buffer(self._bytes(name))
            opened = content, parsed(content, self._location.file_url(name))
            with self._lock:
                self._opened[name] = opened
                while len(self._opened) > _KEPT:
                    self._opened.popitem(last=False)
        content, metadata = opened
        # A new reader for each row group: threads must not share one.
        return pq.ParquetFile(
            pa.BufferReader(content), metadata=metadata, coerce_int96_timestamp_unit="us"
        )

    def _bytes(self, name: str) -> Buffer:
        url = self._location.file_url(name)
        try:
            return self._source.open(self._infos[name])
        except DatasetNotFoundError as error:
            if self._table_version is not None:
                raise missing_file(url, self._table_version) from error
            raise DatasetNotFoundError(
                f"{url} is gone, but existed when the dataset was opened. Restore it, or open "
                "the dataset again",
                url=url,
            ) from error
        except CorruptDatasetError as error:
            raise CorruptDatasetError(
                f"{url} no longer has {self._infos[name].raw_data.bytes} bytes, as it did when the "
                "dataset was opened: it was rewritten or truncated. Open the dataset again",
                url=url,
            ) from error


def missing_file(url: str, version: int) -> DatasetNotFoundError:
    """Return the error for a file that a version of a table refers to, and that is not there."""
    return DatasetNotFoundError(
        f"{url} is missing, which is part of version {version} of the table: VACUUM, or the "
        "expiry of snapshots, may have removed it. Open the newest version, or restore the file",
        url=url,
    )


def _as_shard(file: ParquetFileInfo) -> ShardInfo:
    """Describe a file to the shard cache."""
    return ShardInfo((), (), (), 0, FileInfo(file.name, file.size, {}))
