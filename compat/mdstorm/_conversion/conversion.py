"""`convert`, which writes Parquet files, tables and Petastorm datasets as MDS datasets."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from mdstorm import errors
from mdstorm._conversion.encoded_fields import mds_plan
from mdstorm._datasets import (
    check_parquet,
    stored_unischema,
    with_declared_partitions,
)
from mdstorm.unischema import Unischema
from mdstorm_backend import convert as engine
from mdstorm_backend import format as mds
from mdstorm_backend.base import check_flag, check_names, suggests_instead
from mdstorm_backend.catalogs import check_destination, given_table, table_name
from mdstorm_backend.datasets import Dataset, check_file_bytes, check_files
from mdstorm_backend.kinds import open_stored
from mdstorm_backend.parquet import ParquetDataset, is_hidden
from mdstorm_backend.spark import materialize, spark_url
from mdstorm_backend.storage import MAX_FILE_BYTES, FilesBelow, Location, NamedFiles
from mdstorm_backend.tables import AsOf
from mdstorm_backend.write import index_to_replace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@suggests_instead({"size_limit": "use shard_size, the maximum number of bytes of a shard"})
def convert(
    source: str | os.PathLike[str],
    url: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    dtype: Literal["float32", "float64"] | None = None,
    decimals: Literal["float64", "float32", "decimal"] | None = None,
    shard_size: int | None = None,
    compression: str | None = None,
    hashes: Iterable[str] = (),
    overwrite: bool = False,
    spark: SparkSession | None = None,
    storage_options: dict[str, Any] | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | bool | None = None,
    resume: bool = True,
    keep_row_groups: bool | None = None,
    version: int | str | None = None,
    timestamp: str | datetime | None = None,
    files: Mapping[str, str] | None = None,
    files_below: FilesBelow | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> Dataset:
    """Convert Parquet files, a table, or a dataset written by Petastorm to an MDS dataset.

    Values, types and nulls are kept, unless you pass `dtype` or `decimals`, and Hive partitions
    become columns. The fields of a Petastorm dataset are stored decoded (images as PNG or JPEG
    files), and its schema is kept. Each row group of such a dataset becomes a shard, so that
    shuffled row groups, selectors and n-grams work as before.

    Without Spark, rows keep their order, memory usage is bounded, and an interrupted conversion
    resumes when you run it again. With Spark, the executors read and write the data, Spark
    determines the row order, and an interrupted conversion cannot be resumed.

    Parameters
    ----------
    source : str or path
        URL or local path of a Parquet file or directory, or of a Delta or Iceberg table.
    url : str or path
        Directory for the MDS dataset. It must not contain a dataset unless `overwrite` is true.
    columns : sequence of str, optional
        Columns to convert, in this order; all of them by default.
    dtype : {"float32", "float64", None}
        Type to which floating-point scalars and array elements are converted; None keeps their
        types.
    decimals : {"float64", "float32", "decimal", None}
        Type to which decimals and arrays of decimals are converted. None and ``"decimal"`` keep
        all digits.
    shard_size : int, optional
        Maximum size of an uncompressed shard in bytes, at most 4 GiB. None and 0 mean 64 MiB, or
        the size of the row group if each row group becomes a shard.
    compression : str, optional
        ``"zstd"``, ``"gz"``, ``"bz2"``, ``"br"`` or ``"snappy"``, with an optional ``":level"``.
    hashes : iterable of str
        Names of the hashes to record in the index for every file; unique and sorted.
    overwrite : bool
        Whether to replace a dataset that mdstorm wrote to `url`. The old dataset is kept until the
        new one is complete.
    spark : pyspark.sql.SparkSession, optional
        Session that runs the conversion, either classic or Connect.
    storage_options : dict, optional
        Options for the fsspec file systems of both URLs. With `spark`, they apply only to `url` and
        must not contain credentials; Spark reads with its own configuration.
    workers : int, optional
        Number of threads, one per CPU core by default, but at most 8. Ignored with Spark.
    progress : callable or bool, optional
        Function called with the number of converted rows and the total, without Spark. By default,
        progress is shown in a terminal or a notebook. False turns it off, even with Spark.
    resume : bool
        Whether to resume an interrupted run, and to keep finished shards if this run is
        interrupted. False starts over.
    keep_row_groups : bool, optional
        Whether each shard contains rows from only one row group. The default is True for datasets
        with a Petastorm schema and False otherwise. True is not supported with `spark`.
    version, timestamp : optional
        The table version, as in `mdstorm.make_batch_reader`; the latest one by default.
    files : mapping of str to str, optional
        Columns to add, each with the content of the files whose paths or URLs a column of strings
        names, as bytes: ``{"image": "path"}``. Nulls stay null.
    files_below : list of str or mapping of str to dict, optional
        Directories outside of the source's own from which `files` may be read, as URLs or paths; a
        mapping also has the storage options of each.
    max_file_bytes : int
        Maximum size of one file in bytes, 256 MiB by default.

    Returns
    -------
    Dataset
        The new dataset.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored. The error lists all of them and is raised before anything is
        written.
    MissingColumnError
        If one of `columns` does not exist.
    DatasetNotFoundError, CorruptDatasetError
        If there are no Parquet files, or one of them is damaged.
    DatasetExistsError
        If `url` contains a dataset, part of another conversion, or Parquet files.
    WriteError
        If the dataset cannot be written.
    InvalidArgumentError
        If an argument has an invalid value.
    UnsupportedTableError
        If `source` is an unsupported kind of table, or any table if `spark` is passed; or if the
        files differ in one of the columns.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> pq.write_table(pa.table({"id": range(4)}), "/tmp/ids.parquet")
    >>> dataset = convert("file:///tmp/ids.parquet", "file:///tmp/ids-mds", hashes=["sha256"])
    >>> len(dataset), int(dataset[3]["id"])
    (4, 3)
    """
    mds.check_float_dtype(dtype)
    mds.check_decimals(decimals)
    check_flag("overwrite", overwrite)
    check_flag("resume", resume)
    check_names("hashes", hashes)
    check_destination(os.fspath(url))
    target = Location.of(os.fspath(url), storage_options)
    given = given_table(source, storage_options)
    name = table_name(given.source)
    for one in given.source if isinstance(given.source, list) else [given.source]:
        if name is None and isinstance(one, (str, os.PathLike)):
            _check_apart(Location.of(one, given.storage_options).url, target)
    # The target is checked before the catalog is queried for the table and its credentials.
    _check_no_parquet(target)
    index_to_replace(target, overwrite=overwrite)
    as_of = AsOf(version, timestamp)
    found = open_stored(source, storage_options=storage_options, as_of=as_of, keep_row_groups=True)
    parquet = check_parquet(found)
    if name is not None or parquet.table_version is not None:
        # Check the directory of a table whose name or metadata file was given.
        _check_apart(parquet.location.url, target)
    if spark is not None:
        _check_for_spark(parquet, keep_row_groups)
    unischema = stored_unischema(parquet)
    if unischema is not None:
        parquet = with_declared_partitions(parquet, unischema)
    keep = unischema is not None if keep_row_groups is None else keep_row_groups
    names, plan = _plan(parquet, unischema, columns, dtype, decimals)
    added = stored_files(files, files_below, max_file_bytes, root=parquet.root)
    options: dict[str, Any] = {
        **plan,
        "shard_size": shard_size,
        "compression": compression,
        "hashes": tuple(hashes),
        "storage_options": storage_options,
        "overwrite": overwrite,
        "files": added,
    }
    if spark is not None:
        frame = _read_by_spark(spark, parquet.url, parquet, names)
        return materialize(frame, target.url, progress=progress is not False, **options)
    return engine.convert_parquet(
        parquet,
        target.url,
        columns=names,
        cut_at="row_groups" if keep else None,
        workers=workers,
        progress=progress,
        resume=resume,
        **options,
    )


def stored_files(
    files: Mapping[str, str] | None,
    files_below: FilesBelow | None,
    max_file_bytes: int,
    *,
    root: Location | None = None,
) -> engine.FileColumns | None:
    """Return the columns that ``files=`` adds to a copy, whose files may also be below `root`.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If an argument is invalid, or no directory is allowed.
    """
    check_files("files", files)
    check_file_bytes("max_file_bytes", max_file_bytes)
    allowed = NamedFiles(root, files_below or (), max_bytes=max_file_bytes)
    if not files:
        return None
    if not allowed.locations:
        raise errors.InvalidArgumentError(
            f"files={files!r} names files, but no directory is allowed: pass files_below=[…] with "
            "the directories whose files may be read"
        )
    return engine.FileColumns(dict(files), allowed)


def _check_apart(source: str, target: Location) -> None:
    """Raise InvalidArgumentError if the directories are the same or one contains the other."""
    if f"{target.url}/".startswith(f"{source}/") or source.startswith(f"{target.url}/"):
        raise errors.InvalidArgumentError(
            f"source and destination overlap at {target.url}: choose another destination"
        )


def _check_for_spark(parquet: ParquetDataset, keep_row_groups: bool | None) -> None:
    """Raise an error for sources and options that conversion with Spark does not support."""
    if parquet.table_version is not None:
        raise errors.UnsupportedTableError(
            f"{parquet.url} is a Delta or Iceberg table. Tables are converted without spark: "
            "leave out spark, or read the table with Spark and pass the DataFrame to "
            "make_spark_converter",
            url=parquet.url,
        )
    if keep_row_groups:
        raise errors.InvalidArgumentError(
            "keep_row_groups=True cannot be combined with spark, whose tasks do not follow row "
            "groups: convert without spark"
        )


def _plan(
    parquet: ParquetDataset,
    unischema: Unischema | None,
    columns: Sequence[str] | None,
    dtype: str | None,
    decimals: str | None,
) -> tuple[list[str], dict[str, Any]]:
    """Return the columns to read, and the keyword arguments for storing them; see `mds_plan`."""
    fields = engine.chosen_fields(parquet.arrow_schema, columns)
    if columns is not None and not 0 < len(set(columns)) == len(columns):
        raise errors.InvalidArgumentError(
            f"columns must name at least one column, and each only once; found {[*columns]}"
        )
    parquet.schema.check_readable(fields.names, parquet.url)
    if unischema is None:
        return fields.names, {"plan": engine.plan_parquet(fields, dtype, decimals)}
    if dtype is not None:
        raise errors.InvalidArgumentError(
            f"{parquet.url} was written by Petastorm, and its schema declares dtypes: convert it "
            "without dtype"
        )
    if mds.become_floats(decimals):
        raise errors.InvalidArgumentError(
            f"{parquet.url} was written by Petastorm, and its schema declares decimals: convert it "
            f"without decimals, and read it with make_reader(…, decimals={decimals!r})"
        )
    if columns is not None:
        kept = [unischema.fields[name] for name in columns if name in unischema.fields]
        unischema = unischema.create_schema_view(kept)
    return fields.names, mds_plan(unischema, parquet, columns)


def _check_no_parquet(target: Location) -> None:
    """Raise DatasetExistsError if a directory has Parquet files, which readers would ignore."""
    for name in target.list_names():
        if name.endswith(".parquet") and not is_hidden(name):
            raise errors.DatasetExistsError(
                f"Directory is not empty: {target.url} holds Parquet files, such as {name}, which "
                "readers would ignore alongside an MDS dataset. Choose another directory"
            )


def _read_by_spark(
    spark: SparkSession, url: str, parquet: ParquetDataset, names: Sequence[str]
) -> DataFrame:
    """Read Parquet columns with Spark, with the same types as in a conversion without Spark.

    Spark would infer dates and fractions from directory names, which mdstorm reads as strings or
    integers. Some sessions do not allow changing the setting that turns this inference off.
    """
    from pyspark.sql.functions import col
    from pyspark.sql.types import StringType, StructField, StructType

    url, partitions = spark_url(url), parquet.partition_columns
    frame = spark.read.parquet(url)
    if partitions:
        fields = [
            StructField(field.name, StringType()) if field.name in partitions else field
            for field in frame.schema
        ]
        frame = spark.read.schema(StructType(fields)).parquet(url)
    columns = {name: col("`" + name.replace("`", "``") + "`") for name in names}
    for name in partitions:
        if name in columns and pa.types.is_integer(parquet.arrow_schema.field(name).type):
            columns[name] = columns[name].cast("long").alias(name)
    return frame.select(*columns.values())
