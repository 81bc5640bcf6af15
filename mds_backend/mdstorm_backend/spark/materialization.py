"""`materialize`: write a Spark DataFrame as an MDS dataset in one job."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.compression import check_hashes
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.format.shard_info import MAX_SHARD_BYTES
from mdstorm_backend.format.type_plan import plan_types
from mdstorm_backend.format.values.arrow_types import simple_name
from mdstorm_backend.spark.jobs import collect_reports, write_progress
from mdstorm_backend.spark.session import check_dataframe, sized_arrow_batches
from mdstorm_backend.storage import Location, check_no_secrets
from mdstorm_backend.write import commit, tasks
from mdstorm_backend.write.directories import Claim
from mdstorm_backend.write.full_shard import ShardFormat

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: Bytes; the default of the MDS format's own writer.
DEFAULT_SHARD_SIZE = 1 << 26

_logger = logging.getLogger(__name__)


def materialize(
    df: DataFrame,
    url: str,
    *,
    dtype: str | None = "float32",
    decimals: str | None = None,
    shard_size: int | None = None,
    compression: str | None = None,
    hashes: Iterable[str] = (),
    storage_options: dict[str, Any] | None = None,
    plan: Schema | None = None,
    recode: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
    extra: Mapping[str, Any] | None = None,
    progress: bool = True,
    overwrite: bool = False,
) -> Dataset:
    """Write a DataFrame as an MDS dataset.

    The function makes one pass with ``df.mapInArrow``, on a classic or a Spark Connect session.
    Samples are in the order of the partitions. The index is written last, so a failed job leaves no
    dataset.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        Any frame, even an empty one.
    url : str
        Directory for the dataset, to which the executors write. It must not hold a dataset yet,
        unless `overwrite` is true.
    dtype : {"float32", "float64", None}
        Type to which floating-point scalars, arrays and vectors are cast; None keeps their types.
    decimals : {"float64", "float32", "decimal", None}
        Type to which decimals and arrays of decimals are converted; None and ``"decimal"`` keep
        every digit.
    shard_size : int, optional
        Largest size of an uncompressed shard in bytes, at most 4 GiB; None and 0 mean 64 MiB.
    compression : str, optional
        ``"zstd"``, ``"gz"``, ``"bz2"``, ``"br"`` or ``"snappy"``, with an optional ``":level"``.
    hashes : iterable of str
        Names of the hashes to record in the index for every file, such as ``["sha1", "xxh64"]``;
        unique and in sorted order.
    storage_options : dict, optional
        Options of the fsspec file system. They are sent to the executors, so credentials in them
        are refused.
    plan : Schema, optional
        How to store the columns, instead of the plan made from their types, `dtype` and `decimals`.
    recode : callable, optional
        Called on the executors with every record batch; returns a batch with the columns of `plan`.
    extra : dict, optional
        Further JSON entries to store beside the schema, under the key ``"mdstorm"`` of the index.
    progress : bool
        Whether to show progress in a terminal or a notebook.
    overwrite : bool
        Whether to replace a dataset that mdstorm wrote to `url`. The old dataset stays until the
        new one is complete.

    Returns
    -------
    Dataset
        The dataset, opened.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored. The error is raised before the job starts, and names all such
        columns.
    InvalidArgumentError
        If an argument has an invalid value, or the frame has no or repeated column names.
    WriteError, DatasetExistsError
        If the directory cannot be written, already holds a dataset, or is in use by another writer.
    MissingDependencyError
        If Python on the Spark workers lacks mdstorm, or a library that mdstorm needs.

    Examples
    --------
    >>> dataset = materialize(spark.range(3), "file:///tmp/materialized", compression="zstd")
    >>> len(dataset)
    3
    """
    check_dataframe(df)
    format_ = ShardFormat(checked_shard_size(shard_size), compression, check_hashes(hashes))
    check_no_secrets(storage_options or {})
    schema = plan or plan_types(df.schema.jsonValue()["fields"], dtype, decimals)
    location = Location.of(url, storage_options)
    replaced = commit.index_to_replace(location, overwrite=overwrite)
    job = secrets.token_hex(4)
    task_arguments = {
        "job": job,
        "location": location,
        "schema": schema,
        "format_": format_,
        "names": df.columns,
        "recode": recode,
    }
    _logger.info(
        "writing %s with the columns %s",
        location.url,
        ", ".join(f"{c.name} {simple_name(c.spark_type or '')} as {c.encoding}" for c in schema),
    )
    commit.remove_unfinished(location)
    commit.mark_directory(location)
    claim = Claim(location)
    try:
        with (
            sized_arrow_batches(df.sparkSession, schema),
            write_progress(df.sparkSession, location, shown=progress),
        ):
            # mapInArrow looks columns up by name, and reads a dot in a name as a field access.
            plain = df.toDF(*(f"c{i}" for i in range(len(df.columns))))
            task = tasks.make_task(tasks.write_partition, task_arguments)
            texts = collect_reports(plain.mapInArrow(task, tasks.REPORT_SCHEMA))
        partitions = tasks.reports_by_partition(texts)
        reports = [report for found in partitions.values() for report in found]
        index = commit.publish(location, schema, reports, job, extra, replaced=replaced)
    except BaseException:
        commit.clean_up(location, job)
        raise
    finally:
        claim.release()
    _logger.info("wrote %d shards to %s", len(index.shards), location.url)
    return Dataset(location, index)


def checked_shard_size(shard_size: int | None) -> int:
    """Return a shard size in bytes, limited to 4 GiB; None and 0 mean the default.

    Raises
    ------
    InvalidArgumentError
        If `shard_size` is negative or not a whole number; numeric strings are accepted.
    """
    try:
        size = int(shard_size or DEFAULT_SHARD_SIZE)
        whole = isinstance(shard_size, (str, type(None))) or size == (shard_size or size)
    except (OverflowError, TypeError, ValueError):
        size, whole = -1, False
    if size < 0 or not whole or isinstance(shard_size, bool):
        raise InvalidArgumentError(
            f"the shard size must be a whole number of bytes or None, found {shard_size!r}"
        )
    return min(size, MAX_SHARD_BYTES)
