"""`convert_parquet`: convert Parquet files to an MDS dataset without Spark."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import groupby
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from mdstorm_backend import display, errors
from mdstorm_backend.base import check_integer, check_list, choose_among
from mdstorm_backend.convert.conversion import Conversion
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.format import shard_info, type_plan
from mdstorm_backend.format.schema import FORMAT_VERSION, Schema
from mdstorm_backend.format.values.arrow_types import cast, holds_vectors, plain_type
from mdstorm_backend.parquet import ParquetDataset, RowGroup
from mdstorm_backend.parquet.columns import read_errors
from mdstorm_backend.storage import Location
from mdstorm_backend.write import full_shard
from mdstorm_backend.write.file_columns import FileColumns

#: Boundaries in the source that no shard crosses.
CutAt: TypeAlias = Literal["files", "row_groups"]
#: Converts a record batch of the source to a batch with the plan's columns.
Recode: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

#: Version of the conversion. It is increased when the same rows would be converted differently, so
#: that no conversion resumes from tasks of an earlier version.
_VERSION = 3


def convert_parquet(
    source: ParquetDataset,
    url: str | Location,
    *,
    columns: Sequence[str] | None = None,
    plan: Schema | None = None,
    recode: Recode | None = None,
    files: FileColumns | None = None,
    shard_size: int | None = None,
    compression: str | None = None,
    hashes: Iterable[str] = (),
    storage_options: dict[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
    cut_at: CutAt | None = None,
    workers: int | None = None,
    progress: display.Progress = None,
    resume: bool = True,
    overwrite: bool = False,
) -> Dataset:
    """Write the rows of Parquet files as an MDS dataset, in the same order.

    Values are unchanged unless the plan specifies otherwise, and types, nulls and column order read
    back as from Parquet. Row groups are converted in threads, each of which holds one shard and one
    batch of rows in memory; the resulting files are the same for any number of threads. The index
    is written last, so an unfinished conversion is not a dataset.

    A conversion that was interrupted, even by ``kill -9``, resumes where it stopped when the same
    source is converted to the same directory with the same options. If data cannot be stored,
    nothing is left behind.

    Parameters
    ----------
    source : ParquetDataset
        The source, from `open_parquet`.
    url : str or Location
        Directory for the dataset, which must not hold one yet. Other files in it are kept.
    columns : sequence of str, optional
        Columns to convert, in this order; all of them by default.
    plan : Schema, optional
        How columns are stored, see `plan_parquet`; by default, in encodings that keep their types.
    recode : callable, optional
        Called in the threads with every record batch; returns a batch with the columns of `plan`.
    files : FileColumns, optional
        Further columns with the content of files, which each thread reads, several at a time. If
        the allowed directories cannot be listed, the conversion does not resume.
    shard_size : int, optional
        Maximum size of an uncompressed shard in bytes, at most 4 GiB. None or 0 means 64 MiB or,
        with ``cut_at="row_groups"``, the size of the row group.
    compression : str, optional
        ``"zstd"``, ``"gz"``, ``"bz2"``, ``"br"`` or ``"snappy"``, with an optional ``":level"``.
    hashes : iterable of str
        Hashes to record in the index for every file, unique and sorted.
    storage_options : dict, optional
        Options for the fsspec file system of `url`.
    extra : dict, optional
        Additional JSON entries next to the schema, under the index key ``"mdstorm"``.
    cut_at : {"files", "row_groups", None}
        Boundaries that no shard crosses. By default, shards are filled across files.
    workers : int, optional
        Number of threads; by default one per CPU core, at most 8.
    progress : callable or bool, optional
        Called with the number of rows converted and the total, from one thread at a time; by
        default a terminal or a notebook shows it. False for silence.
    resume : bool
        Keep finished tasks if the conversion is interrupted, and resume from finished tasks of an
        earlier run. False starts over, and removes everything if the conversion fails.
    overwrite : bool
        Replace a dataset that mdstorm wrote there; it is kept until the new one is complete.

    Returns
    -------
    Dataset
        The opened dataset.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored; the message names all of them. Raised before anything is
        written.
    MissingColumnError
        If one of `columns` does not exist.
    InvalidArgumentError
        If an argument has an invalid value.
    EncodingError
        If a value does not fit its column, such as a timestamp whose nanoseconds would be lost.
    DatasetExistsError
        If the directory holds a dataset or part of a different conversion, or another writer is
        using it.
    WriteError
        If the dataset cannot be written.
    """
    check_integer("workers", workers, lowest=1)
    location = url if isinstance(url, Location) else Location.of(url, storage_options)
    of_groups = cut_at == "row_groups" and not shard_size
    limit = shard_info.MAX_SHARD_BYTES if of_groups else full_shard.checked_shard_size(shard_size)
    format_ = full_shard.ShardFormat.of(limit, compression, hashes)
    fields = chosen_fields(source.arrow_schema, columns)
    schema = plan_parquet(fields) if plan is None else plan
    if files is not None:
        schema = files.planned(schema, source.url)
    # Bytes per row: exact if every column has a fixed size, otherwise an estimate.
    sizes = [column.parsed_encoding.size for column in schema]
    size = float(sum(size or 0 for size in sizes) + _OFFSET_BYTES)
    if None in sizes:
        size = max(size, source.nbytes / max(len(source), 1))
    if cut_at == "files":
        paths = [group.path for group in source.row_groups]
        tasks = [list(run) for _, run in groupby(range(len(paths)), key=paths.__getitem__)]
    else:
        tasks = cut_tasks(source.shard_sizes, 0 if cut_at else limit / size)
    # The empty list is kept so that conversions started by earlier versions keep their ids.
    writing = [schema.to_json(), [], asdict(format_), dict(extra or {}), cut_at]
    identity = [_VERSION, FORMAT_VERSION, source.content_identity(), fields.names, writing]
    read: Callable[..., Iterator[pa.RecordBatch]] = partial(
        row_batches, source, columns=fields.names, row_bytes=size, recode=recode
    )
    if files is not None:
        read = partial(_with_files, source, read, files)
        state = files.identity() if resume else None
        resume = state is not None
        identity.append(state or secrets.token_hex())
    conversion = Conversion(
        hashlib.sha256(json.dumps(identity, sort_keys=True).encode("ascii")).hexdigest(),
        location,
        schema,
        format_,
        tasks,
        [sum(source.shard_sizes[number] for number in task) for task in tasks],
        read,
        dict(extra or {}),
    )
    with display.progress("Converting", "rows", progress) as shown:
        return conversion.run(workers, shown, resume=resume, overwrite=overwrite)


def _with_files(
    source: ParquetDataset,
    read: Callable[..., Iterator[pa.RecordBatch]],
    files: FileColumns,
    row_groups: Sequence[int],
    **options: Any,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in some consecutive row groups, with the content of files."""
    first_row = sum(source.shard_sizes[: row_groups[0]])
    yield from files.added(read(row_groups, **options), source.url, first_row)


#: Bytes of a row's entry in the shard's offset table.
_OFFSET_BYTES = 4


def chosen_fields(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return a schema with only the fields `columns`, in that order, or all if that is None.

    Raises
    ------
    ArgumentTypeError
        If `columns` is not a list.
    MissingColumnError
        If one of `columns` does not exist.
    """
    check_list("columns", columns)
    if columns is None:
        return schema
    for name in columns:
        if name not in schema.names:
            what = f"there is no column {name!r}{choose_among(name, schema.names)}"
            raise errors.MissingColumnError(what, column=name)
    return pa.schema([schema.field(name) for name in columns])


def plan_parquet(
    schema: pa.Schema, dtype: str | None = None, decimals: str | None = None
) -> Schema:
    """Return a plan for storing data of an Arrow schema so that it reads back unchanged.

    Spark's vectors become arrays, as they do when Spark writes the dataset.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the Parquet files, including partition columns.
    dtype : {"float32", "float64", None}
        Type for floating-point scalars and array elements; None keeps their types.
    decimals : {"float64", "float32", "decimal", None}
        Type for decimals, see `plan_types`.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored; the message names all of them.
    InvalidArgumentError
        If there are no columns, or two have the same name.
    """
    return type_plan.plan_batch(without_vectors(schema), None, dtype, decimals)


def without_vectors(schema: pa.Schema) -> pa.Schema:
    """Return a schema with Spark's vectors replaced by arrays."""
    arrays = pa.list_(pa.float64())
    return pa.schema([f.with_type(arrays) if holds_vectors(f.type) else f for f in schema])


def cut_tasks(row_counts: Sequence[int], rows_per_task: float) -> list[list[int]]:
    """Divide row groups into tasks, each of consecutive groups with at most `rows_per_task` rows.

    A larger row group is a separate task; with a limit of 0, every row group is.
    """
    tasks: list[list[int]] = []
    rows = 0
    for number, count in enumerate(row_counts):
        if not tasks or (rows and rows + count > rows_per_task):
            tasks.append([])
            rows = 0
        tasks[-1].append(number)
        rows += count
    return tasks


#: Approximate size of a batch in bytes, and its maximum number of rows.
BATCH_BYTES = 8 << 20
_MOST_ROWS = 1 << 16


def rows_of_a_batch(row_bytes: float, most: int) -> int:
    """Return the number of rows per batch, at most `most`, given the bytes per row."""
    return int(min(max(BATCH_BYTES / max(row_bytes, 1), 1), most))


def row_batches(
    source: ParquetDataset,
    row_groups: Iterable[int],
    columns: Sequence[str],
    row_bytes: float,
    most: int = _MOST_ROWS,
    *,
    recode: Recode | None = None,
    use_threads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in some of a Parquet dataset's row groups, in order.

    Parameters
    ----------
    source : ParquetDataset
        The dataset.
    row_groups : iterable of int
        Indices of the row groups in the dataset.
    columns : sequence of str
        Columns to read, in this order; may include Hive partition columns.
    row_bytes : float
        Approximate bytes per row.
    most : int
        Maximum number of rows per batch.
    recode : callable, optional
        Called with every batch; the returned batches are yielded in their place.
    use_threads : bool
        Whether to decode several columns at a time.

    Raises
    ------
    CorruptDatasetError
        If a file is damaged, or does not have the recorded number of rows.
    UnsupportedTableError
        If pyarrow has no support for the values.
    """
    rows = rows_of_a_batch(row_bytes, most)
    groups = [source.row_groups[number] for number in row_groups]
    for _, of_file in groupby(groups, key=lambda group: group.file_url):
        batches = _of_file(source, list(of_file), columns, batch_size=rows, use_threads=use_threads)
        yield from map(recode, batches) if recode else batches


def _of_file(
    source: ParquetDataset, groups: Sequence[RowGroup], columns: Sequence[str], **options: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the live (not deleted) rows of row groups in one file; see `row_batches`."""
    stored, partition, url = source.stored_columns, groups[0].partition, groups[0].file_url
    from_file = [name for name in columns if name not in partition]
    types = {name: plain_type(source.arrow_schema.field(name).type) for name in columns}
    with read_errors(url, columns), source.open_file(groups[0]) as file:
        for rows, arrays in stored.live_rows(file, groups, from_file, **options):
            if not rows:
                continue
            for name in partition.keys() & columns:
                arrays[name] = stored.repeated(name, partition[name], rows)
            values = [
                arrays[name]
                if plain_type(arrays[name].type) == type_
                else cast(arrays[name], type_)
                for name, type_ in types.items()
            ]
            yield pa.RecordBatch.from_arrays(values, names=columns)
