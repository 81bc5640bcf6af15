"""`MDSWriter`: write a dataset from samples or from Arrow data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from reprlib import repr as shortened
from typing import Any, Literal

import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base import OwnContext, check_flag, check_integer, check_mapping
from mdstorm_backend.display import (
    Described,
    Description,
    ProgressLine,
    counted,
    human_bytes,
    shown_url,
)
from mdstorm_backend.format import INDEX_NAME, shard_info, type_plan
from mdstorm_backend.format.sizes import parse_size_limit
from mdstorm_backend.write import batch_shards, commit, directories, full_shard, sample_shards


class MDSWriter(Described, OwnContext):
    """Writes an MDS dataset, with the same arguments as MosaicML Streaming's class.

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
        directory (see the `local` attribute).
    compression : str, optional
        ``"zstd"``, ``"gz"``, ``"bz2"``, ``"br"`` or ``"snappy"``, with an optional ``":level"``.
    hashes : list of str, optional
        Names of the hashes to record in the index for every file; unique and in sorted order.
    size_limit : int or str, optional
        Maximum size of an uncompressed shard in bytes, or a string such as ``"64mb"``. None and 0
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
        never removed: if there are any, an error is raised, and nothing is changed.
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
        out: directories.PathOrPair,
        keep_local: bool = False,
        compression: str | None = None,
        hashes: Iterable[str] | None = None,
        size_limit: int | str | None = 1 << 26,
        progress_bar: bool = False,
        max_workers: int | None = None,
        retry: int = directories.DEFAULT_RETRY,
        exist_ok: bool = False,
        storage_options: dict[str, Any] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise errors.InvalidArgumentError(
                f"Invalid Writer argument(s): {sorted(unknown)}. Valid ones are "
                f"{', '.join(ARGUMENTS)}"
            )
        if columns is not None:
            type_plan.check_columns(columns)
        flags = {"keep_local": keep_local, "progress_bar": progress_bar, "exist_ok": exist_ok}
        for name, value in flags.items():
            check_flag(name, value)
        check_mapping("storage_options", storage_options)
        check_integer("max_workers", max_workers, lowest=1)
        check_integer("retry", retry, lowest=0)
        limit = parse_size_limit(size_limit)
        format_ = full_shard.ShardFormat.of(limit, compression or None, hashes)
        targets = directories.find_targets(out, keep_local, storage_options)
        self.local, self.remote = targets.local, targets.remote
        first = format_.file_name(full_shard.shard_name("shard", 0))
        for location in targets.all:
            directories.clear_target(location, exist_ok=exist_ok, first_shard=first)
        self.columns = None if columns is None else dict(columns)
        chosen = dict(sorted((columns or {}).items()))
        self.column_names, self.column_encodings = list(chosen), list(chosen.values())
        self.column_sizes = full_shard.column_sizes(chosen.values())
        self.keep_local, self.compression = keep_local, compression
        self.hashes, self.size_limit = list(format_.hashes), limit
        progress = _FileProgress("Writing MDS shards", shown=progress_bar)
        store = full_shard.ShardStore(
            targets.to_write,
            format_,
            "shard",
            max_workers or full_shard.DEFAULT_WORKERS,
            retry or 0,
            progress.add_file,
        )
        store.claim()
        #: All other state is here, so that subclasses may use any other attribute name.
        self._mdstorm = Writing(columns, format_, store, progress)

    def _mdstorm_description(self, *, full: bool) -> Description:
        place = shown_url(self.remote or self.local or "")
        return Description([repr(place), f"columns={shortened(self.columns)}"])

    def write(self, sample: Mapping[str, Any]) -> None:
        """Append a sample, a dict with a value for every column; other entries are ignored.

        If a sample raises an error, no part of it is written, and you can continue writing.

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
        writing = self._mdstorm
        writing.check_open()
        shards = writing.shards
        if isinstance(shards, TableShards):
            raise _other_kind("Arrow data", "call write_batch with pyarrow.Table.from_pylist([…])")
        if shards is None:
            if writing.columns is None:
                raise errors.InvalidArgumentError(
                    "columns are not known: pass the encoding of every column in columns={…}, or "
                    "write Arrow data with write_batch"
                )
            shards = sample_shards.SampleShards(writing.columns, writing.format_, writing.emit)
        shards.write(sample)
        writing.shards = shards

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
        if not isinstance(data, (pa.Table, pa.RecordBatch)):
            raise errors.ArgumentTypeError(
                f"write_batch takes a pyarrow Table or RecordBatch, found {type(data).__name__}: "
                "use pyarrow.Table.from_pandas(…) or from_pydict(…), or write(sample)"
            )
        writing = self._mdstorm
        writing.check_open()
        shards = writing.shards or TableShards(
            data.schema, writing.columns, writing.format_, writing.emit
        )
        if not isinstance(shards, TableShards):
            raise _other_kind("samples", "call write with each of data.to_pylist()")
        before = shards.num_rows
        try:
            shards.write_table(data)
        except BaseException:
            if shards.num_rows > before:
                writing.abandon()
            raise
        writing.shards = shards

    def finish(self) -> None:
        """Write the last shard, wait for all shards, and write the index; idempotent.

        Raises
        ------
        WriteError
            If a file could not be stored; all files are then removed.
        """
        writing = self._mdstorm
        if writing.state == "finished":
            return
        writing.check_open()
        try:
            if writing.shards is not None:
                writing.shards.flush()
            plan = writing.shards.schema if isinstance(writing.shards, TableShards) else None
            index = commit.build_index(plan, writing.store.finish())
            writing.store.write(INDEX_NAME, [index.to_bytes()])
            writing.store.close()
        except BaseException:
            writing.abandon()
            raise
        writing.state = "finished"
        writing.progress.close()

    def get_config(self) -> dict[str, Any]:
        """Return the header of a shard: the format, its settings, and the columns."""
        names = ("format", "compression", "hashes", "size_limit")
        columns = ("column_names", "column_encodings", "column_sizes")
        config = {name: getattr(self, name) for name in (*names, *columns)}
        return {"version": shard_info.INDEX_VERSION, **config}

    def __reduce__(self) -> Any:
        raise errors.ArgumentTypeError(
            "an MDSWriter cannot be copied or sent to another process, because both would write "
            "the same files: create one in each process that writes, with its own directory, and "
            "merge the directories with merge_index"
        )

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        if kind is None:
            self.finish()
        else:
            self._mdstorm.abandon()


#: The arguments of `MDSWriter`.
ARGUMENTS = [p.name for p in signature(MDSWriter).parameters.values() if p.kind is p.KEYWORD_ONLY]


class _FileProgress(ProgressLine):
    """Shows the number and size of written files."""

    files = size = 0

    def add_file(self, size: int) -> None:
        self.files += 1
        self.size += size
        self.draw(f"{counted(self.files, 'file')}, {human_bytes(self.size)}")


@dataclass
class Writing:
    """The state of an `MDSWriter`: the shards and the threads that store them.

    Attributes
    ----------
    columns : dict of str to str, optional
        Encodings that the user chose.
    format_ : ShardFormat
        Settings of all shards.
    store : ShardStore
        Stores full shards.
    progress : ProgressLine
        Shows the files that were written.
    shards : SampleShards or TableShards or None
        Collects samples or Arrow tables; None until the first of them is written.
    state : {"open", "finished", "abandoned"}
        The state of the dataset.
    """

    columns: Mapping[str, str] | None
    format_: full_shard.ShardFormat
    store: full_shard.ShardStore
    progress: ProgressLine
    shards: sample_shards.SampleShards | TableShards | None = None
    state: Literal["open", "finished", "abandoned"] = "open"

    def check_open(self) -> None:
        """Raise WriteError if the dataset is finished or abandoned."""
        if self.state != "open":
            raise errors.WriteError(
                f"this MDSWriter is {self.state} and takes no more samples: create a new writer to "
                "write another dataset"
            )

    def emit(self, shard: full_shard.FullShard) -> None:
        """Store a shard."""
        try:
            self.store.put(shard)
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Remove all written files, unless the dataset is finished or already removed."""
        if self.state == "open":
            self.state = "abandoned"
            self.store.remove_all()
            self.progress.close()


def _other_kind(first: str, instead: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"this MDSWriter has {first}, but a writer accepts either samples or Arrow data. Write the "
        f"rest in the same way: {instead}"
    )


class TableShards(batch_shards.BatchShards):
    """Cuts tables into shards; all tables must have the columns and types of the first one.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the first table.
    columns : dict of str to str, optional
        Encodings that the user chose; other columns get the encoding of their type.
    format_, emit
        As for `BatchShards`.
    """

    def __init__(
        self,
        schema: pa.Schema,
        columns: Mapping[str, str] | None,
        format_: full_shard.ShardFormat,
        emit: full_shard.Emit,
    ) -> None:
        plan = type_plan.plan_batch(schema, columns)
        super().__init__(plan, format_, emit, frozenset(columns or ()))
        self._types = {name: schema.field(name).type for name in plan.names}

    def write_table(self, data: pa.Table | pa.RecordBatch) -> None:
        """Append the rows of a table; after an error, some rows may already have been appended."""
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        types = {field.name: field.type for field in table.schema}
        for name, type_ in self._types.items():
            if types.get(name) != type_:
                raise errors.InvalidArgumentError(
                    f"column {name!r} has type {types.get(name, '(missing)')} in this batch "
                    f"and {type_} in earlier batches: give all batches the same columns and types"
                )
            nulls = 0 if self.schema[name].nullable else table.column(name).null_count
            if nulls:
                raise errors.InvalidArgumentError(
                    f"column {name!r} holds {counted(nulls, 'null')}, but is not nullable in the "
                    "schema of the first batch: make the field nullable there, or fill the nulls"
                )
        for batch in table.select(list(self._types)).to_batches():
            self.write(batch)
