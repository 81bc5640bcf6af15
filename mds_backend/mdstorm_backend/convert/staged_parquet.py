"""Write a Spark DataFrame as MDS through staged Parquet, for executors that cannot write MDS.

Spark itself can write where its executors' Python processes may not, for example on shared
clusters. Spark writes Parquet to a staging directory; this process (the client, on Spark Connect)
then converts the files in bounded memory and removes them.
"""

from __future__ import annotations

import json
import logging
import secrets
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mdstorm_backend.convert.parquet_to_mds import convert_parquet
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.errors import DatasetNotFoundError, WriteError
from mdstorm_backend.format import Schema, plan_types
from mdstorm_backend.format.values.arrow_types import arrow_type
from mdstorm_backend.parquet import ParquetDataset, open_parquet
from mdstorm_backend.spark import sessions
from mdstorm_backend.spark.job_progress import write_progress
from mdstorm_backend.storage import Location
from mdstorm_backend.write import directories

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameWriter

    from mdstorm_backend.write.file_columns import FileColumns

_PREFIX = "_mdstorm_staging_"

#: Size of row groups. They are read whole, so they should be no larger than shards.
_ROW_GROUP_BYTES = 32 << 20

#: Number of tasks that check whether all executors write to this process's disk. It exceeds the
#: number of cores of any one machine, so that several machines run some of the tasks.
_TASKS = 64

#: Settings to write exact timestamps: by default, Spark 3.5 writes an old format and rejects
#: timestamps before 1900.
_EXACT_TIMES = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}

_ANOTHER_DIRECTORY = (
    "Choose another directory as staging_dir_url, one that Spark can write to and this process "
    "can read under the same URL"
)

_logger = logging.getLogger(__name__)


def materialize_staged(
    df: DataFrame,
    url: str,
    staging_dir_url: str,
    *,
    dtype: str | None = "float32",
    decimals: str | None = None,
    shard_size: int | None = None,
    compression: str | None = None,
    storage_options: dict[str, Any] | None = None,
    files: FileColumns | None = None,
) -> Dataset:
    """Write a DataFrame as `materialize` does, but through Parquet files from the executors.

    Parameters
    ----------
    df, url, dtype, decimals, shard_size, compression, storage_options
        As for `materialize`; the driver writes to `url`, so the options may include credentials.
    files : FileColumns, optional
        Further columns with the content of files, which the driver reads.
    staging_dir_url : str
        Directory that Spark can write to and this process can read, used during the call. Existing
        files in it are kept.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored; the message names all of them. Raised before the job starts.
    InvalidArgumentError
        If an argument has an invalid value, or the frame has no columns or repeated names.
    WriteError
        If the directory cannot be written, or already holds a dataset, or if some executors write
        to a different disk at the same path. A job that fails raises Spark's own error.
    """
    schema = plan_types(df.schema.jsonValue()["fields"], dtype, decimals)
    if files is not None:
        files.planned(schema, "the DataFrame")
    staging = _new_directory(staging_dir_url)
    if sessions.spark_url(staging.url).startswith("file:") and not sessions.is_local(
        df.sparkSession
    ):
        _check_shared(df.sparkSession, _new_directory(staging_dir_url))
    _logger.info("staging Parquet at %s", staging.url)
    # Number the columns: Parquet writers reject some names, such as those that differ only in case.
    plain = df.toDF(*(f"c{i}" for i in range(len(schema))))
    try:
        with sessions.session_conf(df.sparkSession, _EXACT_TIMES):
            writer = plain.write.option("parquet.block.size", str(_ROW_GROUP_BYTES))
            with write_progress(df.sparkSession, None, "Staging Parquet"):
                write_parquet(writer, staging)
        return convert_parquet(
            _open_staged(staging),
            url,
            plan=schema,
            recode=lambda batch: _restored(schema, batch),
            files=files,
            shard_size=shard_size,
            compression=compression,
            storage_options=storage_options,
            cut_at="files",
            resume=False,
        )
    finally:
        _remove(staging)


def _new_directory(staging_dir_url: str) -> Location:
    return Location.of(staging_dir_url).child(f"{_PREFIX}{secrets.token_hex(8)}")


def _check_shared(session: SparkSession, directory: Location) -> None:
    """Raise WriteError unless this process sees all executors' files in a directory.

    If each executor has its own disk, Spark's commit silently skips the files that are not on the
    driver's disk.
    """
    try:
        write_parquet(session.range(0, _TASKS, 1, _TASKS).write, directory)
        if (seen := len(_open_staged(directory))) != _TASKS:
            raise WriteError(
                f"Some of Spark's executors write to their own disks: of {_TASKS} rows that "
                f"they wrote to {directory.url}, this process sees {seen}. {_ANOTHER_DIRECTORY}"
            )
    finally:
        _remove(directory)


def write_parquet(writer: DataFrameWriter, staging: Location) -> None:
    """Write Parquet files with Spark; a failure is Spark's own error, after a line in the log."""
    try:
        writer.parquet(sessions.spark_url(staging.url))
    except Exception:  # each kind of session raises its own errors
        _logger.error("Spark could not write Parquet to %s. %s", staging.url, _ANOTHER_DIRECTORY)
        raise


def _open_staged(staging: Location) -> ParquetDataset:
    try:
        return open_parquet([staging])
    except DatasetNotFoundError:
        raise WriteError(
            f"Spark wrote Parquet to {staging.url}, but this process cannot see it: Spark has "
            f"a different disk or mount at this path. {_ANOTHER_DIRECTORY}. Remove the files "
            "that Spark wrote on its own machine"
        ) from None


def _restored(schema: Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with the schema's column names, and with time zones for its timestamps."""
    columns = batch.columns
    for i, column in enumerate(schema):
        # Sessions that refuse `_EXACT_TIMES` write INT96, read back as timestamps without a zone.
        if column.spark_type and '"timestamp"' in json.dumps(column.spark_type):
            columns[i] = columns[i].cast(arrow_type(column.spark_type))
    return pa.RecordBatch.from_arrays(columns, names=list(schema.names))


def _remove(staging: Location) -> None:
    """Remove a directory that this job created."""
    with directories.cleaning_up(staging):
        for name in staging.list_names():
            staging.remove(name)
        staging.remove_directory_if_empty()
