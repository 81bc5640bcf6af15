"""`convert_parquet`: convert Parquet files to an MDS dataset without Spark."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from mdstorm_backend import display, errors
from mdstorm_backend.base import check_integer, check_names, choose_among
from mdstorm_backend.convert.conversion import Conversion
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.format import shard_info, type_plan
from mdstorm_backend.format.schema import FORMAT_VERSION, Schema
from mdstorm_backend.format.values.arrow_types import holds_vectors
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.storage import Location
from mdstorm_backend.write import full_shard
from mdstorm_backend.write.file_columns import FileColumns

#: Boundaries in the source that no shard crosses.
CutAt: TypeAlias = Literal["files", "row_groups"]
#: Converts a record batch of the source to a batch with the plan's columns.
Recode: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]

#: Version of the conversion. It is increased when the same rows would be converted differently, so
#: that no conversion resumes from parts of an earlier version.
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
        Keep finished parts if the conversion is interrupted, and resume from the parts of an
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
    row_bytes = _bytes_per_row(source, schema)
    # The empty list is kept so that conversions started by earlier versions keep their ids.
    writing = [schema.to_json(), [], asdict(format_), dict(extra or {}), cut_at]
    # As earlier versions identified the source, so that their conversions are resumed.
    content = source.former or source.content_identity()
    identity = [_VERSION, FORMAT_VERSION, content, fields.names, writing]
    if files is not None:
        state = files.identity() if resume else None
        resume = state is not None
        identity.append(state or secrets.token_hex())
    most = rows_of_a_batch(row_bytes, _MOST_ROWS)

    def read(part: range, *, use_threads: bool) -> Iterator[pa.RecordBatch]:
        stored = source.stored_batches(part, fields.names, most, use_threads=use_threads)
        rows = (pa.RecordBatch.from_arrays([*b.values()], names=[*b]) for b in stored)
        recoded = map(recode, rows) if recode else rows
        return files.added(recoded, source.url, part.start) if files else iter(recoded)

    conversion = Conversion(
        hashlib.sha256(json.dumps(identity, sort_keys=True).encode("ascii")).hexdigest(),
        location,
        schema,
        format_,
        cut_parts(source, limit / row_bytes, cut_at),
        read,
        dict(extra or {}),
    )
    with display.progress("Converting", "rows", progress) as shown:
        return conversion.run(workers, shown, resume=resume, overwrite=overwrite)


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
    check_names("columns", columns)
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


def _bytes_per_row(source: ParquetDataset, schema: Schema) -> float:
    """Return the stored bytes per row: exact if every column has a fixed size, or an estimate."""
    sizes = [column.parsed_encoding.size for column in schema]
    size = float(sum(size or 0 for size in sizes) + _OFFSET_BYTES)
    return max(size, source.nbytes / max(len(source), 1)) if None in sizes else size


def cut_parts(source: ParquetDataset, most: float, cut_at: CutAt | None) -> list[range]:
    """Divide rows into parts, each of consecutive row groups with at most `most` rows.

    A larger row group is a separate part. With `cut_at`, each file or row group is a part.
    """
    most = 0 if cut_at == "row_groups" else most
    starts: list[int] = []
    bounds, path = source.bounds.tolist(), ""
    for group, start, stop in zip(source.row_groups, bounds[:-1], bounds[1:], strict=True):
        if cut_at == "files":
            begins = group.path != path
        else:
            begins = not starts or (start > starts[-1] and stop - starts[-1] > most)
        if begins:
            starts.append(start)
        path = group.path
    return [range(*ends) for ends in pairwise([*starts, bounds[-1]])]


#: Approximate size of a batch in bytes, and its maximum number of rows.
BATCH_BYTES = 8 << 20
_MOST_ROWS = 1 << 16


def rows_of_a_batch(row_bytes: float, most: int) -> int:
    """Return the number of rows per batch, at most `most`, given the bytes per row."""
    return int(min(max(BATCH_BYTES / max(row_bytes, 1), 1), most))
