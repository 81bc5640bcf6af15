"""`convert_parquet`: convert Parquet files to an MDS dataset without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from mdstorm_backend.base.checks import check_integer, check_list, choose_among
from mdstorm_backend.base.threads import num_threads
from mdstorm_backend.convert.conversion import Conversion, ConversionId, cut_tasks, tasks_by_file
from mdstorm_backend.convert.row_batches import Recode, RowBatches
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.display import Progress
from mdstorm_backend.display import progress as show_progress
from mdstorm_backend.errors import MissingColumnError
from mdstorm_backend.format.compression import check_hashes
from mdstorm_backend.format.schema import FORMAT_VERSION, Schema
from mdstorm_backend.format.shard_info import MAX_SHARD_BYTES
from mdstorm_backend.format.type_plan import plan_batch
from mdstorm_backend.format.values.arrow_types import holds_vectors
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.spark.materialization import checked_shard_size
from mdstorm_backend.storage import Location
from mdstorm_backend.write.shard_buffer import ShardFormat

#: Boundaries in the source at which shards end.
CutAt: TypeAlias = Literal["files", "row_groups"]

#: Increased when the same rows would be converted differently, so that a conversion never resumes
#: from tasks of an earlier version.
_VERSION = 3


def convert_parquet(
    source: ParquetDataset,
    url: str | Location,
    *,
    columns: Sequence[str] | None = None,
    plan: Schema | None = None,
    recode: Recode | None = None,
    shard_size: int | None = None,
    compression: str | None = None,
    hashes: Iterable[str] = (),
    storage_options: dict[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
    cut_at: CutAt | None = None,
    workers: int | None = None,
    progress: Progress = None,
    resume: bool = True,
    overwrite: bool = False,
) -> Dataset:
    """Write the rows of Parquet files as an MDS dataset, in the same order.

    Values are unchanged unless the plan says otherwise, and types, nulls and column order read back
    as from Parquet. Row groups are converted in threads, each of which holds one shard and one
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
        Directory for the dataset, which must not hold one yet. Other files in it are left alone.
    columns : sequence of str, optional
        Columns to convert, in this order; all of them by default.
    plan : Schema, optional
        How columns are stored, see `plan_parquet`; by default, in encodings that keep their types.
    recode : callable, optional
        Called in the threads with every record batch; returns a batch with the columns of `plan`.
    shard_size : int, optional
        Largest size of an uncompressed shard in bytes, at most 4 GiB. None or 0: 64 MiB, or with
        ``cut_at="row_groups"`` the size of the row group.
    compression : str, optional
        ``"zstd"``, ``"gz"``, ``"bz2"``, ``"br"`` or ``"snappy"``, with an optional ``":level"``.
    hashes : iterable of str
        Hashes of every file to record in the index: unique and in sorted order.
    storage_options : dict, optional
        Options of the fsspec file system of `url`.
    extra : dict, optional
        Further entries, as JSON, beside the schema under the key ``"mdstorm"`` of the index.
    cut_at : {"files", "row_groups", None}
        Boundaries that no shard crosses. By default, shards are filled across files.
    workers : int, optional
        Number of threads; by default one per CPU core, at most 8.
    progress : callable or bool, optional
        Called with the number of rows converted and the total, from one thread at a time; by
        default a terminal or a notebook shows it. False for silence.
    resume : bool
        Keep finished tasks if the conversion is interrupted, and resume from those of an earlier
        run. False starts over, and removes everything if the conversion fails.
    overwrite : bool
        Replace a dataset that mdstorm wrote there, which stays until the new one is complete.

    Returns
    -------
    Dataset
        The dataset, opened.

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
        If a value does not fit, such as a timestamp whose nanoseconds would be lost.
    DatasetExistsError
        If the directory holds a dataset or part of another conversion, or another writer is using
        it.
    WriteError
        If the dataset cannot be written.
    """
    check_integer("workers", workers, lowest=1)
    location = url if isinstance(url, Location) else Location.of(url, storage_options)
    of_groups = cut_at == "row_groups" and not shard_size
    limit = MAX_SHARD_BYTES if of_groups else checked_shard_size(shard_size)
    format_ = ShardFormat(limit, compression, check_hashes(hashes))
    fields = chosen_fields(source.arrow_schema, columns)
    schema = plan_parquet(fields) if plan is None else plan
    size = row_bytes(schema, source.nbytes / max(len(source), 1))
    if cut_at == "files":
        tasks = tasks_by_file([group.path for group in source.row_groups])
    else:
        tasks = cut_tasks(source.shard_sizes, 0 if cut_at else limit / size)
    # The empty list keeps the ids of conversions that earlier versions began.
    writing = [schema.to_json(), [], asdict(format_), dict(extra or {}), cut_at]
    conversion = Conversion(
        ConversionId(_VERSION, FORMAT_VERSION, source.fingerprint, fields.names, writing),
        RowBatches(source, fields, size),
        location,
        schema,
        format_,
        recode,
        list(tasks),
        dict(extra or {}),
    )
    with show_progress("Converting", "rows", progress) as shown:
        return conversion.run(num_threads(workers), shown, resume=resume, overwrite=overwrite)


#: Bytes that every row takes in the shard's table of offsets.
_OFFSET_BYTES = 4


def chosen_fields(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Return the fields `columns` of a schema in that order, or all fields for None.

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
            raise MissingColumnError(
                f"there is no column {name!r}{choose_among(name, schema.names)}",
                column=name,
            )
    return pa.schema([schema.field(name) for name in columns])


def plan_parquet(
    schema: pa.Schema, dtype: str | None = None, decimals: str | None = None
) -> Schema:
    """Return a plan that stores data of an Arrow schema so that it reads back unchanged.

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
    fields = [f.with_type(pa.list_(pa.float64())) if holds_vectors(f.type) else f for f in schema]
    return plan_batch(pa.schema(fields), None, dtype, decimals)


def row_bytes(schema: Schema, source_row_bytes: float) -> float:
    """Estimate the bytes of a row in a shard; exact if every column has a fixed size.

    Parameters
    ----------
    schema : Schema
        Plan of the columns.
    source_row_bytes : float
        Uncompressed bytes that a row takes in Parquet.
    """
    sizes = [column.parsed_encoding.size for column in schema]
    known = float(sum(size or 0 for size in sizes) + _OFFSET_BYTES)
    return known if None not in sizes else max(known, source_row_bytes)
