"""`MDSWriter`: write a dataset from samples or from Arrow data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from reprlib import repr as shortened
from typing import Any

import pyarrow as pa

from mdstorm_backend.base.threads import OwnContext
from mdstorm_backend.display import Described, Description, shown_place
from mdstorm_backend.display.live_progress import FileProgress
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, WriteError
from mdstorm_backend.format.compression import check_hashes
from mdstorm_backend.format.encodings import parse_encoding
from mdstorm_backend.format.index import INDEX_NAME
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.format.shard_info import INDEX_VERSION, parse_size_limit
from mdstorm_backend.format.type_plan import check_columns
from mdstorm_backend.storage import Location
from mdstorm_backend.write.batch_shards import TableShards
from mdstorm_backend.write.commit import build_index
from mdstorm_backend.write.directories import DEFAULT_RETRY, Path, clear_target, find_targets
from mdstorm_backend.write.sample_shards import SampleShards
from mdstorm_backend.write.shard_buffer import FullShard, ShardFormat
from mdstorm_backend.write.shard_writer import ShardStore, check_counts


class MDSWriter(Described, OwnContext):
    """Writes an MDS dataset, with the arguments of MosaicML Streaming's class of that name.

    Use it in a ``with`` block. At the end of the block, after all shards, the index is written,
    which makes the files a dataset. If the block raises, there is no dataset, and the written files
    are removed.

    Samples written one at a time give the same bytes as MosaicML Streaming's writer, with one
    exception: if the first sample is larger than `size_limit`, that writer puts an empty shard
    before it.

    A writer takes either samples or Arrow data, and only one thread at a time may use it.

    Parameters
    ----------
    columns : dict of str to str
        The encoding of each column. You can leave it out for Arrow data: every column then gets
        the encoding that keeps its type.
    out : str or path, or pair of them
        Directory for the dataset: a local path or a URL. With a pair ``(local, remote)``, the
        dataset is written to the second, and with `keep_local` a copy to the first.
    keep_local : bool
        Whether to keep a local copy of a remote dataset; without a pair, in a new temporary
        directory, see the attribute `local`.
    compression : str, optional
        ``"zstd"``, ``"gz"``, ``"bz2"``, ``"br"`` or ``"snappy"``, with an optional ``":level"``.
    hashes : list of str, optional
        Names of the hashes to record in the index for every file; unique and in sorted order.
    size_limit : int or str, optional
        Largest size of an uncompressed shard in bytes, or a string such as ``"64mb"``. None and 0
        put everything into one shard, up to the 4 GiB that the format allows.
    progress_bar : bool
        Whether to show in a terminal or a notebook how many files and bytes have been written.
    max_workers : int, optional
        Number of threads that compress, hash and write shards; each holds one shard in memory.
    retry : int
        Number of times that writing a file to remote storage is tried again.
    exist_ok : bool
        Whether to replace a dataset in the directory, or the files that a killed writer left in a
        local one. They are removed first, so whatever fails later leaves neither. Other files are
        never removed: if there are any, an error says so, and nothing is changed.
    storage_options : dict, optional
        Arguments of the fsspec file system of the URL.

    Attributes
    ----------
    local, remote : str or None
        Local directory and URL of the dataset, or None.
    columns, keep_local, compression, hashes, size_limit
        The values passed; the size limit in bytes.
    column_names, column_encodings, column_sizes : list
        Name, encoding and size in bytes of the values of each column, in stored order; the size is
        None if it varies.

    Raises
    ------
    InvalidArgumentError
        If an argument is unknown or has an invalid value.
    UnsupportedTypeError
        If the format has no such encoding.
    DatasetExistsError
        If the directory is not empty.

    Examples
    --------
    >>> import numpy as np
    >>> from mdstorm_backend import open_dataset
    >>> columns = {"id": "int", "pixels": "ndarray:uint8:2,2"}
    >>> with MDSWriter(out="/tmp/written", columns=columns, compression="zstd") as writer:
    ...     writer.write({"id": 1, "pixels": np.zeros((2, 2), np.uint8)})
    >>> open_dataset("/tmp/written")[0]["pixels"].shape
    (2, 2)
    """

    #: Name of the shard format in the index.
    format = "mds"

    def __init__(
        self,
        *,
        columns: Mapping[str, str] | None = None,
        out: Path | tuple[Path, Path],
        keep_local: bool = False,
        compression: str | None = None,
        hashes: Iterable[str] | None = None,
        size_limit: int | str | None = 1 << 26,
        progress_bar: bool = False,
        max_workers: int | None = None,
        retry: int = DEFAULT_RETRY,
        exist_ok: bool = False,
        storage_options: dict[str, Any] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise InvalidArgumentError(
                f"Invalid Writer argument(s): {sorted(unknown)}. Known are columns, out, "
                "keep_local, compression, hashes, size_limit, progress_bar, max_workers, retry, "
                "exist_ok and storage_options"
            )
        if columns is not None:
            check_columns(columns)
        check_counts(max_workers, retry)
        limit = parse_size_limit(size_limit)
        format_ = ShardFormat(limit, compression or None, check_hashes(hashes))
        targets = find_targets(out, keep_local, storage_options)
        self.local, self.remote = targets.local, targets.remote
        first = format_.file_name(shard_name(0))
        for location in targets.all:
            clear_target(location, exist_ok=exist_ok, first_shard=first)
        self.columns = None if columns is None else dict(columns)
        encodings = sorted((columns or {}).items())
        self.column_names = [name for name, _ in encodings]
        self.column_encodings = [encoding for _, encoding in encodings]
        self.column_sizes = [parse_encoding(encoding).size for _, encoding in encodings]
        self.keep_local, self.compression = keep_local, compression
        self.hashes, self.size_limit = list(format_.hashes), limit
        #: All other state is here, so that subclasses may use any other attribute name.
        self._mdstorm = Writing(
            columns,
            format_,
            targets.to_write,
            max_workers=max_workers,
            retry=retry,
            progress_bar=progress_bar,
        )

    def _mdstorm_description(self, *, full: bool) -> Description:
        place = shown_place(self.remote or self.local or "")
        return Description([repr(place), f"columns={shortened(self.columns)}"])

    def write(self, sample: Mapping[str, Any]) -> None:
        """Append a sample, a dict with a value for every column; other entries are ignored.

        If a sample raises an error, nothing of it is written, and you can continue writing.

        Raises
        ------
        ArgumentTypeError
            If the sample is not a mapping.
        MissingColumnError
            If a column is missing.
        EncodingError
            If a value does not fit the encoding of its column; values are never wrapped around or
            truncated.
        InvalidArgumentError
            If the writer has Arrow data, or no `columns`.
        WriteError
            If the writer is finished, or an earlier shard could not be stored.
        """
        self._mdstorm.write(sample)

    def write_batch(self, data: pa.Table | pa.RecordBatch) -> None:
        """Append all rows of Arrow data, a whole column at a time.

        Types that MDS does not have (booleans, dates, timestamps, decimals, nested values, nulls)
        are recorded as for a Spark DataFrame. mdstorm reads them back; other readers find the
        values that the documentation describes. All batches must have the same types. Data that is
        refused leaves no trace, unless a part of it was already appended: then nothing is
        published, and you cannot continue writing.

        Parameters
        ----------
        data : pyarrow.Table or pyarrow.RecordBatch
            The rows. Columns that are not among `columns` are ignored.

        Raises
        ------
        UnsupportedTypeError
            If a column cannot be stored in MDS shards, or not in its encoding.
        EncodingError
            If a value does not fit the encoding of its column.
        InvalidArgumentError
            If the writer has samples, or batches have different types.
        WriteError
            If the writer is finished, or an earlier shard could not be stored.
        """
        self._mdstorm.write_batch(data)

    def finish(self) -> None:
        """Write the last shard, wait for all shards, and write the index; idempotent.

        Raises
        ------
        WriteError
            If a file could not be stored; all files are then removed.
        """
        self._mdstorm.finish()

    def get_config(self) -> dict[str, Any]:
        """Return the header of a shard: the format, its settings, and the columns."""
        names = ("format", "compression", "hashes", "size_limit")
        columns = ("column_names", "column_encodings", "column_sizes")
        return {"version": INDEX_VERSION, **{n: getattr(self, n) for n in (*names, *columns)}}

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(
            "an MDSWriter cannot be copied or sent to another process, since both would write "
            "the same files: create one in each process that writes, with its own directory, and "
            "merge the directories with merge_index"
        )

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        if kind is None:
            self.finish()
        else:
            self._mdstorm.leave_unfinished()


class Writing:
    """The state of an `MDSWriter`: the shards and the threads that store them."""

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
        self.store = ShardStore(
            targets,
            format_,
            shard_name,
            max_workers=max_workers,
            retry=retry,
            exclusive=True,
            on_file=self._progress.add,
        )
        self._columns, self._format = columns, format_
        #: One of these is set by the first write: samples, or Arrow tables.
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
            tables.write_table(table)
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
        """Write the last shard, wait for all shards, and write the index."""
        if self._state == "finished":
            return
        if self._state != "open":
            raise self._closed_error()
        try:
            index = build_index(self._flush(), self.store.finish())
            self.store.write(INDEX_NAME, [index.to_bytes()])
            self.store.close()
        except BaseException:
            self._abandon()
            raise
        self._state = "finished"
        self._progress.close()

    def _flush(self) -> Schema | None:
        """Emit the last shard and return the logical schema; None for samples, which have none."""
        if self._samples is not None:
            self._samples.flush()
        if self._tables is None:
            return None
        self._tables.flush()
        return self._tables.plan

    def leave_unfinished(self) -> None:
        """Remove all written files, unless the dataset is finished or already removed."""
        if self._state == "open":
            self._abandon()

    def _closed_error(self) -> WriteError:
        return WriteError(
            f"this MDSWriter is {self._state} and takes no more samples: write another dataset "
            "with a new writer"
        )

    def _emit(self, shard: FullShard) -> None:
        try:
            self.store.put(shard)
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        self._state = "abandoned"
        self.store.remove_all()
        self._progress.close()


def _other_kind(first: str, instead: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"this MDSWriter has {first}, and takes either samples or Arrow data. Write the rest in "
        f"the same way: {instead}"
    )


def shard_name(number: int) -> str:
    """Return the file name of the uncompressed shard of a number."""
    return f"shard.{number:05}.mds"
