"""Write datasets with a Unischema, and read the Unischema of existing datasets.

The names are the same as in ``petastorm.etl.dataset_metadata``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, TypeAlias, get_args

from mdstorm import errors
from mdstorm._conversion import mds_plan
from mdstorm._datasets import (
    ROW_GROUPS_PER_FILE_KEY,
    UNISCHEMA_KEY,
    check_columns,
    checked_urls,
    common_metadata_of,
    open_written,
    stored_unischema,
    with_declared_partitions,
    write_petastorm_metadata,
)
from mdstorm._petastorm_names import other_names
from mdstorm._pickles import dump_unischema, load_unischema
from mdstorm.errors import PetastormMetadataError, PetastormMetadataGenerationError
from mdstorm.unischema import Unischema, infer_unischema
from mdstorm_backend.base import check_one_of
from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.format import INDEX_NAME
from mdstorm_backend.kinds import open_stored
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.spark import session_conf
from mdstorm_backend.storage import Location, modification_of

__all__ = [
    "ROW_GROUPS_PER_FILE_KEY",
    "UNISCHEMA_KEY",
    "PetastormMetadataError",
    "PetastormMetadataGenerationError",
    "get_schema",
    "get_schema_from_dataset_url",
    "infer_or_load_unischema",
    "load_row_groups",
    "materialize_dataset",
]

__getattr__ = other_names(__name__)
_SIZE = "parquet.block.size"
_MIB = 1 << 20
#: Number of rows after which Parquet first checks the size of a row group. It is small because rows
#: can be large.
_FIRST_CHECK = "3"
_logger = logging.getLogger(__name__)
StorageFormat: TypeAlias = Literal["parquet", "mds"]
#: The size and modification time of each file.
_FileStates: TypeAlias = dict[str, tuple[int, str]]
#: Files that Spark writes alongside the data.
_SPARK_FILES = frozenset({"_SUCCESS", "_common_metadata", "_metadata"})


@contextmanager
def materialize_dataset(
    spark: Any,
    dataset_url: str,
    schema: Unischema,
    row_group_size_mb: int | None = None,
    use_summary_metadata: bool = False,
    filesystem_factory: Callable[[], Any] | None = None,
    *,
    storage_format: StorageFormat = "parquet",
) -> Iterator[None]:
    """Add a schema and row-group metadata to the Parquet files written in a ``with`` block.

    ::

        with materialize_dataset(spark, url, HelloWorld, row_group_size_mb=64):
            rows = spark.sparkContext.parallelize(range(100)).map(make_row)
            rows = rows.map(lambda row: dict_to_spark_row(HelloWorld, row))
            frame = spark.createDataFrame(rows, HelloWorld.as_spark_schema())
            frame.write.mode("overwrite").parquet(url)

    The files are not modified. At the end of the block, ``_common_metadata`` is written alongside
    them, in the format of Petastorm 0.13.1. The dataset can then be read by Petastorm as well as by
    `make_reader` and Spark, so you can migrate writers first and readers later, or the other way
    around.

    A block that appends files extends the dataset. A block that writes nothing regenerates the
    metadata of existing files, even if it was damaged. Blocks in several processes can end at the
    same time. If the block raises, the metadata is left unchanged. Row-group indexes are deleted
    when the row groups change, so build them after the block.

    With ``storage_format="mds"``, the rows become an MDS dataset with one shard per row group, and
    the Parquet files that the block wrote are removed. Readers return the same rows.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession or None
        The session. If it allows changing settings, they are changed during the block and restored
        at the end.
    dataset_url : str
        Directory of the dataset. With a `filesystem_factory`, it can be a path. This process must
        be able to access the files that the executors write there.
    schema : Unischema
        The schema that encodes the rows. With Parquet, only Petastorm's own codecs are supported.
    row_group_size_mb : int, optional
        Maximum size of a row group in MiB. None and 0 use Spark's setting.
    use_summary_metadata : bool
        Whether to also write ``_metadata``, a summary of all footers. Has no effect for MDS.
    filesystem_factory : callable, optional
        Returns the fsspec or pyarrow file system that this process uses to read `dataset_url`.
    storage_format : {"parquet", "mds"}, keyword-only
        Format of the dataset.

    Raises
    ------
    InvalidArgumentError
        If the URL has no scheme, an argument is invalid, or Petastorm's metadata cannot represent a
        codec in the schema. The error is raised before the block runs.
    DatasetNotFoundError
        If there are no Parquet files at the end of the block; also OSError.
    DatasetExistsError
        If an existing MDS dataset was not replaced; also OSError.
    PetastormMetadataGenerationError
        If the files do not match the schema, or were appended to files with a different schema.

    Examples
    --------
    >>> import numpy as np
    >>> from mdstorm.codecs import ScalarCodec
    >>> from mdstorm.unischema import Unischema, UnischemaField, dict_to_spark_row
    >>> from pyspark.sql.types import LongType
    >>> field = UnischemaField("id", np.int64, (), ScalarCodec(LongType()), False)
    >>> schema = Unischema("Numbers", [field])
    >>> rows = [dict_to_spark_row(schema, {"id": i}) for i in range(3)]
    >>> with materialize_dataset(spark, "file:///tmp/with-schema", schema):
    ...     frame = spark.createDataFrame(rows, schema.as_spark_schema())
    ...     frame.write.parquet("file:///tmp/with-schema")
    >>> list(get_schema_from_dataset_url("file:///tmp/with-schema").fields)
    ['id']
    """
    if not isinstance(schema, Unischema):
        raise errors.ArgumentTypeError(f"schema must be a Unischema, found {type(schema).__name__}")
    size = row_group_size_mb
    if size is not None and not (isinstance(size, (int, float)) and size >= 0):
        raise errors.InvalidArgumentError(
            f"row_group_size_mb must be a non-negative number, found {size!r}"
        )
    check_one_of("storage_format", storage_format, get_args(StorageFormat))
    if storage_format == "parquet":
        dump_unischema(schema)  # raises for an unsupported codec before Spark runs
    if filesystem_factory is None:
        dataset_url = checked_urls(dataset_url)
    filesystem = None if filesystem_factory is None else filesystem_factory()
    location = Location.of(dataset_url, filesystem=filesystem)
    before = _file_states(location)
    with _parquet_settings(spark, row_group_size_mb):
        yield
    _finish(location, before, schema, storage_format, use_summary_metadata)


def get_schema(dataset: Any) -> Unischema:
    """Return the Unischema that a dataset was written with.

    Parameters
    ----------
    dataset : pyarrow.parquet.ParquetDataset, ParquetDataset or Dataset
        Parquet files written by Petastorm and opened by pyarrow or mdstorm, or an MDS dataset.

    Raises
    ------
    PetastormMetadataError
        If the dataset has no Unischema.
    """
    if isinstance(dataset, Dataset):
        found = stored_unischema(dataset)
        if found is None:
            raise _no_unischema(dataset.url)
        return found
    metadata = common_metadata_of(dataset)
    url = getattr(dataset, "url", None) or str(getattr(dataset, "files", ["the dataset"])[0])
    if not metadata:
        raise PetastormMetadataError(
            f"Could not find _common_metadata file of {url}. Use materialize_dataset(…) to write "
            "a dataset with its schema, generate_petastorm_metadata(…) to add the schema to "
            "existing Parquet files, or make_batch_reader(…), which needs no schema"
        )
    if UNISCHEMA_KEY not in metadata:
        raise _no_unischema(url)
    return load_unischema(metadata[UNISCHEMA_KEY])


def get_schema_from_dataset_url(
    dataset_url_or_urls: str | list[str],
    hdfs_driver: str = "libhdfs3",
    storage_options: dict[str, Any] | None = None,
    filesystem: Any = None,
) -> Unischema:
    """Return the Unischema that the dataset at a URL was written with.

    Parameters
    ----------
    dataset_url_or_urls : str or list of str
        Directory of a Petastorm or MDS dataset.
    hdfs_driver : str
        Not used.
    storage_options : dict, optional
        Options for the fsspec file system.
    filesystem : fsspec or pyarrow file system, optional
        File system to read from, which takes precedence over the URL scheme.

    Raises
    ------
    PetastormMetadataError
        If the dataset has no Unischema.
    MetadataNotFoundError
        If there is no dataset; also OSError.
    InvalidArgumentError
        If the URL has no scheme; also ValueError.
    """
    try:
        dataset = open_stored(
            checked_urls(dataset_url_or_urls),
            storage_options=storage_options,
            filesystem=filesystem,
        )
    except errors.DatasetNotFoundError as error:
        raise errors.MetadataNotFoundError(
            f"Could not find _common_metadata file: {error}", url=error.url
        ) from error
    return get_schema(dataset)


def infer_or_load_unischema(dataset: Any) -> Unischema:
    """Return a dataset's stored Unischema, or infer one from its columns.

    Parameters
    ----------
    dataset : pyarrow.parquet.ParquetDataset, ParquetDataset or Dataset
        The dataset.

    Raises
    ------
    UnsafePickleError
        If the stored pickle is not a schema.
    """
    try:
        return get_schema(dataset)
    except errors.UnsafePickleError:
        raise
    except PetastormMetadataError:
        if isinstance(dataset, (Dataset, ParquetDataset)):
            return infer_unischema(dataset.schema)
        return Unischema.from_arrow_schema(dataset)


def load_row_groups(dataset: Any) -> Sequence[Any]:
    """Return the row groups in a Parquet dataset, ordered by file path.

    Parameters
    ----------
    dataset : pyarrow.parquet.ParquetDataset or ParquetDataset
        The dataset. Row groups are read from its file footers; its metadata is not used.

    Returns
    -------
    list
        mdstorm's `RowGroup` objects or, for a pyarrow dataset, fragments with one row group each.
    """
    if isinstance(dataset, ParquetDataset):
        return list(dataset.row_groups)
    if not hasattr(dataset, "fragments"):
        raise errors.ArgumentTypeError(
            f"load_row_groups takes a dataset of Parquet files, found {type(dataset).__name__}"
        )
    fragments = sorted(dataset.fragments, key=lambda fragment: str(fragment.path))
    return [piece for fragment in fragments for piece in fragment.split_by_row_group()]


def _no_unischema(url: str) -> PetastormMetadataError:
    return PetastormMetadataError(
        f"Could not find the unischema in the metadata of {url}. Use materialize_dataset(…) to "
        "write a dataset with its schema, generate_petastorm_metadata(…) to add it to an "
        "existing dataset, or make_batch_reader(…), which needs no schema"
    )


@contextmanager
def _parquet_settings(spark: Any, row_group_size_mb: int | None) -> Iterator[None]:
    """Make Spark write row groups of a given size and no summary files in a ``with`` block.

    The previous settings are restored at the end of the block, even if it raises. Spark Connect
    sessions have no Hadoop configuration, but pass their own conf on to Parquet.
    """
    settings = {
        "parquet.block.size.row.check.min": _FIRST_CHECK,
        "parquet.row-group.size.row.check.min": _FIRST_CHECK,
        "parquet.summary.metadata.level": "NONE",
    }
    if row_group_size_mb:
        settings[_SIZE] = str(int(row_group_size_mb * _MIB))
    conf = _hadoop_configuration(spark)
    if conf is None:
        with session_conf(spark, {} if spark is None else settings) as refused:
            if _SIZE in refused:
                _logger.warning(
                    "row_group_size_mb=%s has no effect, because this session refuses the conf "
                    "%s. Write with df.write.option(%r, %r) to set it",
                    row_group_size_mb,
                    _SIZE,
                    _SIZE,
                    settings[_SIZE],
                )
            yield
        return
    before = {key: conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            conf.unset(key)
            if old is not None:
                conf.set(key, old)


def _hadoop_configuration(spark: Any) -> Any:
    """Return the Hadoop configuration of a classic session, or None for other sessions."""
    with suppress(Exception):  # sessions without a SparkContext raise various errors
        return spark.sparkContext._jsc.hadoopConfiguration()
    return None


def _finish(
    location: Location, before: _FileStates, schema: Unischema, format_: str, with_summary: bool
) -> None:
    """Turn the Parquet files in a directory into a dataset.

    `before` lists the files that existed before the block. For Parquet, Petastorm's metadata is
    added. For MDS, the files are converted. Once the index is written, the new Parquet files are
    removed, together with the files Spark wrote alongside them.
    """
    if location.exists(INDEX_NAME):  # readers would ignore the Parquet files
        raise errors.DatasetExistsError(
            f"{location.url} already holds an MDS dataset, and the block has not replaced it: "
            "write with mode('overwrite'), or to another directory. The rows that the block "
            "wrote are left there as Parquet files: remove them"
        )
    written = []
    try:
        if format_ == "parquet":
            failure = "were given no metadata"
            write_petastorm_metadata(
                location, schema, with_summary=with_summary, files_before=before.keys()
            )
        else:
            failure = "did not become a dataset"
            after = _file_states(location)
            written = [name for name, state in after.items() if before.get(name) != state]
            _convert(location, schema)
    except (errors.DatasetNotFoundError, errors.DatasetExistsError):
        raise
    except errors.MDStormError as error:
        raise PetastormMetadataGenerationError(
            f"The Parquet files in {location.url} {failure}: {error}. They are left unchanged"
        ) from error
    _remove_spark_files(location, written)


def _convert(location: Location, schema: Unischema) -> None:
    """Convert all Parquet files in a directory to an MDS dataset, one shard per row group."""
    source = open_written(location)
    check_columns(source, schema)
    source = with_declared_partitions(source, schema)
    plan = mds_plan(schema, source)
    convert_parquet(source, location, **plan, cut_at="row_groups", resume=False)


def _file_states(location: Location) -> _FileStates:
    return {name: (info["size"], modification_of(info)) for name, info in location.list_files()}


def _remove_spark_files(location: Location, names: Iterable[str]) -> None:
    """Remove Parquet files, Spark's files alongside them, and directories that become empty."""
    removed = [
        name
        for name in names
        if name.endswith((".parquet", ".crc")) or name.rpartition("/")[2] in _SPARK_FILES
    ]
    for name in removed:
        location.remove(name)
    for directory in sorted({name.partition("/")[0] for name in removed if "/" in name}):
        location.child(directory).remove_directory_if_empty()
