"""`make_spark_converter`, which converts a DataFrame, or reuses its copy."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, cast

from mdstorm import errors
from mdstorm._conversion import stored_files
from mdstorm._petastorm_names import public
from mdstorm._spark import copies, deletion
from mdstorm._spark.converter import SparkDatasetConverter, converter_of
from mdstorm._spark.renewed import Renewed
from mdstorm._spark.stored_data import converter_of_data
from mdstorm_backend import spark as jobs
from mdstorm_backend.base import check_flag, check_mapping, check_text, suggests_keywords
from mdstorm_backend.catalogs import is_table
from mdstorm_backend.convert import FileColumns, materialize_staged
from mdstorm_backend.datasets import open_mds
from mdstorm_backend.format import (
    MARKER_NAME,
    Schema,
    become_floats,
    check_decimals,
    check_float_dtype,
    plan_types,
)
from mdstorm_backend.storage import MAX_FILE_BYTES, FilesBelow, Location
from mdstorm_backend.tables import AsOf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: 32 MiB, which is Petastorm's default. In mdstorm, this is the maximum shard size.
DEFAULT_ROW_GROUP_SIZE_BYTES = 32 << 20

#: Petastorm's compression codecs, and the corresponding MDS codecs.
_CODECS = {
    "uncompressed": None,
    "bzip2": "bz2",
    "gzip": "gz",
    "snappy": "snappy",
    # MDS has no equivalent for these; zstd at its fastest level comes closest.
    "lz4": "zstd:1",
    "deflate": "zstd:1",
}

_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


class _NotGiven(str):
    """A default value that can be distinguished from an equal value that the caller passed."""

    __slots__ = ()


#: Petastorm's default, which applies to frames and is ignored for files.
_DEFAULT_DTYPE = cast('Literal["float32"]', _NotGiven("float32"))


@public("mdstorm.spark.spark_dataset_converter")
@suggests_keywords
def make_spark_converter(
    df: DataFrame | str | os.PathLike[str] | list[Any],
    parquet_row_group_size_bytes: int | None = DEFAULT_ROW_GROUP_SIZE_BYTES,
    compression_codec: str | None = None,
    dtype: Literal["float32", "float64"] | None = _DEFAULT_DTYPE,
    *,
    decimals: Literal["float64", "float32", "decimal"] | None = None,
    parent_cache_dir_url: str | os.PathLike[str] | None = None,
    cache_key: str | None = None,
    keep: bool | None = None,
    staging: bool | None = None,
    staging_dir_url: str | os.PathLike[str] | None = None,
    version: int | str | None = None,
    timestamp: str | datetime | None = None,
    storage_options: dict[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    files_below: FilesBelow | None = None,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> SparkDatasetConverter:
    """Write a DataFrame as MDS shards in the parent cache directory.

    A frame that was already converted in this process is not written again if its plan, column
    names and types, source files and options are unchanged, and the copy still exists.

    Parameters
    ----------
    df : pyspark.sql.DataFrame, str, path, list of them, or table object
        The frame, from a classic or Spark Connect session. Alternatively, data of any kind that
        readers read: the path or URL of Parquet files, a Delta or Iceberg table, or an MDS dataset
        (on Databricks, it must be on DBFS), a list of files, the name of a Unity Catalog table, or
        a table of pyiceberg or deltalake. Such data are read in place.
        Only the arguments `dtype`, `decimals`, `version`, `timestamp` and `storage_options` then
        apply, and `SparkDatasetConverter.delete` removes nothing.
    parquet_row_group_size_bytes : int, optional
        Maximum size of an uncompressed shard in bytes, 32 MiB by default; None or 0 means 64 MiB.
    compression_codec : str, optional
        ``uncompressed``, ``snappy``, ``gzip``, ``bzip2``, ``lz4`` or ``deflate``.
    dtype : {"float32", "float64", None}
        Type that floating-point scalars, arrays and vectors are converted to; None keeps their
        types. The default for frames is ``"float32"``. If `df` is a path, the default keeps the
        stored types, and any `dtype` that you pass is applied when the data are read.
    decimals : {"float64", "float32", "decimal"}, optional
        Type that decimals and arrays of decimals are converted to: a floating-point type, for
        training, or ``"decimal"``, which keeps them. By default, decimals are kept, and loaders
        that read them warn. If `df` is a path, decimals are converted when they are read.
    parent_cache_dir_url : str or path, optional
        Directory for converted copies. It takes precedence over any configuration; see
        `parent_cache_dir`.
    cache_key : str, optional
        Name by which other processes find the copy. They reuse it if it was written with the same
        options, from a frame with the same columns and source files. The plan is not compared.
    keep : bool, optional
        Whether the copy outlives this process; by default only if it has a `cache_key`.
    staging : bool, optional
        Whether Spark writes Parquet, which the driver then converts and removes. By default, this
        happens only if executors cannot write to the parent cache directory. It can also be set
        with the conf ``mdstorm.spark.converter.staging`` or the environment variable
        ``MDSTORM_STAGING``.
    staging_dir_url : str or path, optional
        Directory for the staged Parquet, by default inside the parent cache directory. It can also
        be set with the conf ``mdstorm.spark.converter.stagingDirUrl`` or the environment variable
        ``MDSTORM_STAGING_DIR_URL``.
    version, timestamp : optional
        The version of the table at a path, as in `mdstorm.make_batch_reader`; by default the
        latest. The converter always reads that version.
    storage_options : dict, optional
        Options for the path's fsspec file system, which the converter's loaders and datasets also
        use. A converter whose options contain secrets cannot be pickled.
    files : mapping of str to str, optional
        Columns to add, each with the content of the files whose paths or URLs a column of strings
        names, as bytes: ``{"image": "path"}``. Nulls stay null.
    files_below : list of str or mapping of str to dict, optional
        Directories from which `files` may be read, as URLs or absolute paths; a mapping also has
        the storage options of each, which must not contain credentials. If any file in them
        changes, the frame is converted again.
    max_file_bytes : int
        Maximum size of one file in bytes, 256 MiB by default.

    Returns
    -------
    SparkDatasetConverter
        The handle for the copy.

    Raises
    ------
    InvalidArgumentError
        If no parent cache directory is configured, `dtype` or `decimals` is unknown, `version` or
        `timestamp` is passed without a table, `storage_options` is passed with a frame, or
        `cache_key`, `keep`, `compression_codec` or `files` is passed with a path.
    CompressionCodecError
        If `compression_codec` is unknown.
    UnsupportedTypeError
        If any column cannot be stored; raised before anything is written.
    NotADataFrameError
        If `df` is neither a DataFrame nor a path.
    DatasetNotFoundError
        If `df` is a path with no data.
    UnsupportedTableError
        If `df` is the path of an unsupported kind of table.
    UnsupportedURLError
        If `df` is a path outside DBFS on Databricks, or a table name without three parts.

    Notes
    -----
    The first four parameters are the same as in ``petastorm.spark.make_spark_converter``.

    Examples
    --------
    >>> df = spark.range(10).selectExpr("id", "id * 0.5D AS x")
    >>> converter = make_spark_converter(df, parent_cache_dir_url="file:///tmp/cache")
    >>> len(converter)
    10
    >>> with converter.make_torch_dataloader(batch_size=5, num_epochs=1) as loader:
    ...     print([tuple(batch["x"].shape) for batch in loader])
    [(5,), (5,)]
    >>> converter.delete()
    """
    check_driver()
    as_of = AsOf(version, timestamp)
    check_decimals(decimals)
    check_flag("keep", keep)
    check_flag("staging", staging)
    if cache_key is not None:
        check_text("cache_key", cache_key)
    check_mapping("storage_options", storage_options)
    if isinstance(df, (str, os.PathLike, list)) or is_table(df):
        check_float_dtype(dtype)
        of_copies: dict[str, Any] = {"cache_key": cache_key, "keep": keep, "files": files}
        of_copies["compression_codec"] = compression_codec
        converter = converter_of_data(df, decimals, as_of, storage_options, of_copies)
        if dtype is not _DEFAULT_DTYPE:
            converter._mdstorm_dtype = dtype
        return converter
    session = session_of(df)
    parent = copies.parent_cache_dir(session, parent_cache_dir_url)
    _check_frames_arguments(as_of, storage_options)
    compression = mds_compression(compression_codec)
    check_float_dtype(dtype)
    plan = plan_types(df.schema.jsonValue()["fields"], dtype, decimals)
    added = stored_files(files, files_below, max_file_bytes)
    if added is not None:
        plan = added.planned(plan, "the DataFrame")
    options: dict[str, Any] = {
        "shard_size": jobs.checked_shard_size(parquet_row_group_size_bytes),
        "compression": compression,
        "dtype": dtype and str(dtype),
    }
    if become_floats(decimals):
        options["decimals"] = decimals
    copy = _Copy(df, session, parent, plan, options, added)
    write = partial(copy.write, staging, staging_dir_url)
    dataset = open_mds(copies.find_or_convert(df, copy.known_by(cache_key), write, cache_key))
    if cache_key if keep is None else keep:
        deletion.keep_after_exit(dataset.url)
    converter = converter_of(dataset.url, dataset, decimals)
    converter._mdstorm_keep(dataset)
    converter._mdstorm_use = Renewed(dataset.url, MARKER_NAME)
    converter._mdstorm_use.renew()
    return converter


def _check_frames_arguments(as_of: AsOf, storage_options: Mapping[str, Any] | None) -> None:
    """Raise InvalidArgumentError for arguments that do not apply to frames."""
    if as_of:
        raise errors.InvalidArgumentError(
            f"{as_of} chooses a version of a table, but df is not a table's path: use "
            "Spark, spark.read.option('versionAsOf', …) or spark.sql('SELECT … VERSION AS OF …')"
        )
    if storage_options is not None:
        raise errors.InvalidArgumentError(
            "storage_options apply to a path, but df is a frame that Spark reads: leave them out"
        )


@dataclass(frozen=True)
class _Copy:
    """A copy of a frame, which may not exist yet.

    Attributes
    ----------
    df, session
        The frame and its session.
    parent : str
        URL of the parent cache directory.
    plan : Schema
        How the columns are stored.
    options : mapping
        Arguments of `materialize` that change the result.
    files : FileColumns or None
        The columns with the content of files.
    """

    df: DataFrame
    session: SparkSession
    parent: str
    plan: Schema
    options: Mapping[str, Any]
    files: FileColumns | None

    def known_by(self, cache_key: str | None) -> dict[str, Any]:
        """Return what identifies the copy, besides the frame."""
        # Encodings, because other versions of mdstorm may use different ones.
        encodings = {column.name: column.encoding for column in self.plan}
        found = {**self.options, "parent": self.parent, "encodings": encodings}
        if self.files is not None:
            # With a cache_key, the user decides how long a copy is valid if files cannot be listed.
            found["files"] = self.files.identity() or cache_key or str(uuid.uuid4())
        return found

    def write(self, staging: bool | None, staging_dir_url: str | os.PathLike[str] | None) -> str:
        """Write the copy, which is deleted when the process ends, and return its URL."""
        deletion.delete_abandoned(self.parent)
        staged_in = copies.staging_dir(self.session, self.parent, staging, staging_dir_url)
        # The name follows Petastorm's pattern: time, application, unique ID.
        application = jobs.read_conf(self.session, "spark.app.id") or "unknown"
        name = f"{datetime.now():%Y%m%d%H%M%S}-appid-{application}-{uuid.uuid4()}"
        dir_url, dtype = f"{self.parent}/{name}", self.options["dtype"]
        if dtype is not None and any(column.is_floating for column in self.plan):
            warn_of_dtype(dtype)
        if staged_in is None:
            jobs.materialize(self.df, dir_url, files=self.files, **self.options)
        else:
            jobs.check_driver_writes(Location.of(self.parent))
            materialize_staged(self.df, dir_url, staged_in, files=self.files, **self.options)
        deletion.delete_at_exit(dir_url)
        return dir_url


@cache
def warn_of_dtype(dtype: str) -> None:
    """Log once per process that floating-point columns are converted."""
    _logger.warning("Converting floating-point columns to %s", dtype)


def mds_compression(codec: str | None) -> str | None:
    """Return the MDS compression for a value of ``compression_codec``.

    Raises
    ------
    CompressionCodecError
        If it is not one of Petastorm's codecs, in uppercase or lowercase.
    """
    name = str(codec or "uncompressed").lower()
    if name not in _CODECS:
        raise errors.CompressionCodecError(
            f"compression_codec should be None or one of the following values: "
            f"{', '.join(map(repr, _CODECS))}; found {codec!r}"
        )
    compression = _CODECS[name]
    if name in ("lz4", "deflate"):
        _logger.info("MDS has no codec %r: shards are compressed with %s", name, compression)
    return compression


def check_driver() -> None:
    """Raise NotOnDriverError inside a Spark task."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        raise errors.NotOnDriverError(
            "make_spark_converter should not be invoked from executor side: convert on the "
            "driver, and send the converter to the tasks"
        )


def session_of(df: Any) -> SparkSession:
    """Return the session of a DataFrame, classic or Connect.

    Raises
    ------
    NotADataFrameError
        If `df` is anything else, a stream, or a DataFrame of a session that was stopped.
    """
    if not hasattr(type(df), "sparkSession") or not hasattr(type(df), "mapInArrow"):
        module, name = type(df).__module__.partition(".")[0], type(df).__qualname__
        found = name if module in ("builtins", "__main__") else f"{module}.{name}"
        raise errors.NotADataFrameError(
            "make_spark_converter takes a Spark DataFrame, a path or URL of data, or the name of a "
            f"table, found {found}: make a DataFrame with spark.createDataFrame(…)"
        )
    session = cast("SparkSession", df.sparkSession)
    if _is_stopped(session):
        raise errors.NotADataFrameError(
            "the Spark session of the DataFrame was stopped: get a new one with "
            "SparkSession.builder.getOrCreate(), and create the DataFrame again"
        )
    if df.isStreaming:
        raise errors.NotADataFrameError(
            "the DataFrame is a stream, which never ends: write it to a table with writeStream, "
            "and convert the table"
        )
    return session


def _is_stopped(session: Any) -> bool:
    if hasattr(session, "is_stopped"):  # Spark Connect
        return bool(session.is_stopped)
    context = getattr(session, "sparkContext", None)  # serverless compute has none
    return context is not None and context._jsc is None
