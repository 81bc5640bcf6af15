"""Run Spark jobs that write MDS: `materialize` and functions shared with other jobs."""

from __future__ import annotations

import logging
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from mdstorm_backend import errors
from mdstorm_backend.catalogs import check_destination
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.format import Schema, plan_types
from mdstorm_backend.spark import sessions
from mdstorm_backend.spark.job_progress import write_progress
from mdstorm_backend.spark.refusals import short_reason
from mdstorm_backend.storage import Location, check_no_secrets
from mdstorm_backend.write import commit, directories, full_shard, job_files, tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from mdstorm_backend.write.file_columns import FileColumns

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
    files: FileColumns | None = None,
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
        Maximum size of an uncompressed shard in bytes, at most 4 GiB; None and 0 mean 64 MiB.
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
    files : FileColumns, optional
        Further columns with the content of files, which the executors read.
    extra : dict, optional
        Further JSON entries to store next to the schema, under the key ``"mdstorm"`` of the index.
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
        If Python on the Spark workers does not have mdstorm, or a library that it needs.
    EncodingError, MissingFileError, …
        If a task raises an error of mdstorm, whose cause is then Spark's error.

    Examples
    --------
    >>> dataset = materialize(spark.range(3), "file:///tmp/materialized", compression="zstd")
    >>> len(dataset)
    3
    """
    sessions.check_dataframe(df)
    size = full_shard.checked_shard_size(shard_size)
    format_ = full_shard.ShardFormat.of(size, compression, hashes)
    check_no_secrets(storage_options or {})
    check_destination(url)
    schema = plan or plan_types(df.schema.jsonValue()["fields"], dtype, decimals)
    if files is not None:
        schema = files.planned(schema, "the DataFrame")
    location = Location.of(url, storage_options)
    replaced = commit.index_to_replace(location, overwrite=overwrite)
    job = tasks.PartitionJob(secrets.token_hex(4), (location,), format_)
    columns = ", ".join(f"{column.name} as {column.encoding}" for column in schema)
    _logger.info("writing %s with the columns %s", location.url, columns)
    claim = job_files.claim_directory(location)
    try:
        task = {"job": job, "schema": schema, "names": df.columns, "recode": recode}
        task["files"] = files
        texts = run_job(df, tasks.write_batches, task, schema, shown=progress)
        partitions = tasks.reports_by_partition(texts).values()
        reports = [report for found in partitions for report in found]
        index = commit.publish(location, schema, reports, job.name, extra, replaced=replaced)
    except BaseException:
        job_files.clean_up(location, claim, job.name)
        raise
    finally:
        claim.release()
    return Dataset(location, index)


def run_job(
    frame: DataFrame,
    task: Callable[..., Iterator[Any]],
    arguments: dict[str, Any],
    schema: Schema,
    *,
    by: Literal["mapInArrow", "mapInPandas"] = "mapInArrow",
    shown: bool,
) -> list[str]:
    """Run a task from `mdstorm_backend.write.tasks` on each partition and return all reports.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows. The task finds its columns by position: their names are replaced.
    task, arguments
        As for `make_task`. One of the arguments is the `PartitionJob`.
    schema : Schema
        Plan of the columns, which limits the rows of a batch.
    by : {"mapInArrow", "mapInPandas"}
        Method of the frame that runs the task.
    shown : bool
        Whether to show progress.
    """
    session, target = frame.sparkSession, arguments["job"].locations[-1]
    # Columns are renamed, because mapInArrow takes a dot in a column's name for a field access.
    plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    with (
        sessions.sized_arrow_batches(session, schema),
        write_progress(session, target, shown=shown) as rows,
    ):
        job = replace(arguments["job"], rows=rows)
        made = tasks.make_task(task, {**arguments, "job": job})
        return collect_reports(getattr(plain, by)(made, tasks.REPORT_SCHEMA))


#: The error that a `make_task` function raises if workers cannot import mdstorm.
_NO_MDSTORM = re.compile(r"ImportError: (mdstorm cannot be imported on the Spark worker .+)")
#: The errors of Spark workers that lack a library needed by every task.
_NO_LIBRARY = re.compile(
    r"ModuleNotFoundError: No module named '(pyarrow|pandas)'"
    r"|PACKAGE_NOT_INSTALLED\] (PyArrow|Pandas)"
)
#: An error of mdstorm in a task's traceback, and the maximum length of the quoted message.
_OWN_ERROR = re.compile(r"(?P<module>mdstorm[\w.]*)\.(?P<name>\w+): (?P<text>.*)", re.DOTALL)
_LONGEST_MESSAGE = 2000


def collect_reports(mapped: DataFrame) -> list[str]:
    """Run the job of a DataFrame mapped with a `make_task` function; return its reports in order.

    Raises
    ------
    MissingDependencyError
        If mdstorm, or a library that Spark or mdstorm needs, is missing on the workers.
    MDStormError
        If a task raised it, with Spark's error as its cause. Every other error is Spark's own.
    KeyboardInterrupt
        If the user interrupts the job, even if Spark's clean-up then fails with another error,
        since its connection was in use.
    """
    try:
        return [row["report"] for row in mapped.collect()]
    except Exception as error:
        _check_interrupted(error)
        message = _missing_library(error, mapped.sparkSession)
        if message:
            raise errors.MissingDependencyError(message) from error
        own = _own_error(short_reason(error, longest=_LONGEST_MESSAGE))
        if own is None:
            raise
        raise own from error


def _own_error(reason: str) -> errors.MDStormError | None:
    """Return the error of mdstorm that a task raised, from its line in the traceback."""
    found = _OWN_ERROR.match(reason)
    kind = found and getattr(sys.modules.get(found["module"]), found["name"], None)
    if found is None or not (isinstance(kind, type) and issubclass(kind, errors.MDStormError)):
        return None
    return kind(found["text"])


def _check_interrupted(error: BaseException | None) -> None:
    """Raise the KeyboardInterrupt in an error's context, if there is one."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            raise error
        error = error.__context__


def _missing_library(error: Exception, session: SparkSession) -> str:
    """Return a message if a Spark error means that a library is missing; otherwise ""."""
    reason = short_reason(error)
    if ours := _NO_MDSTORM.match(reason):
        return ours[1]
    found = _NO_LIBRARY.search(reason)
    if found is None:
        return ""
    name = (found[1] or found[2]).lower()
    if sessions.is_local(session):
        return (
            f"Python on the Spark workers has no {name}. Set the environment variable "
            f"PYSPARK_PYTHON to {sys.executable} before Spark starts, or activate its environment"
        )
    return (
        f"Python on a Spark worker has no {name}. Install mdstorm on all workers, or set "
        "PYSPARK_PYTHON to a Python that has it"
    )


_DRIVER_NAME = "driver"


def check_driver_writes(location: Location) -> None:
    """Write a small file from this process and remove it.

    Raises
    ------
    CredentialsError, StorageError
        If the storage refuses the file. The message quotes the library's error, without chaining.
    WriteError
        If the file cannot be written to a disk of this machine.
    """
    with _probe_directory(location):
        pass


def why_not_writable(session: SparkSession, location: Location) -> str:
    """Write a small file from an executor and check that this process sees it.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        A classic or a Spark Connect session; runs a job of one task.
    location : Location
        The directory.

    Returns
    -------
    str
        The reason why executors cannot write there, in one line; empty if they can. A failed job
        also counts as a reason, since the session may refuse Python code.

    Raises
    ------
    CredentialsError, StorageError, WriteError
        If this process cannot write there either; no job has run then.
    MissingDependencyError
        If Python on the executors does not have mdstorm or its dependencies.
    """
    with _probe_directory(location) as directory:
        arguments = {"url": directory.url, "storage_options": directory.storage_options}
        task = tasks.make_task(tasks.write_probe, arguments)
        try:
            mapped = session.range(0, 1, 1, 1).mapInArrow(task, tasks.REPORT_SCHEMA)
            (refused,) = collect_reports(mapped)
        except errors.MissingDependencyError:
            raise
        except Exception as error:  # each kind of session raises its own errors
            return short_reason(error)
        unseen = "the driver cannot see the file that an executor wrote there"
        return refused or ("" if directory.exists(tasks.PROBE_NAME) else unseen)


@contextmanager
def _probe_directory(location: Location) -> Iterator[Location]:
    """Create a directory, check that this process can write to it, and remove it at the end."""
    directory = location.child(f"_mdstorm_probe_{secrets.token_hex(8)}")
    try:
        directory.make_directory()  # as the driver does for a dataset
        directory.write(_DRIVER_NAME, [b"The driver can write here.\n"])
    except (errors.CredentialsError, errors.StorageError) as error:
        raise error from None
    except OSError as error:
        _remove(directory)
        raise directories.unwritable(location, error) from None
    try:
        yield directory
    finally:
        _remove(directory)


def _remove(directory: Location) -> None:
    with suppress(OSError):
        directory.remove(_DRIVER_NAME)
        directory.remove(tasks.PROBE_NAME)
        directory.remove_directory_if_empty()
