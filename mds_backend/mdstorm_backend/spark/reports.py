"""Collect what tasks report, tell what their workers lack, and test whether they can write."""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mdstorm_backend.errors import (
    CredentialsError,
    MissingDependencyError,
    StorageError,
    WriteError,
)
from mdstorm_backend.executors.tasks import PROBE_NAME, REPORT_SCHEMA, make_task, write_probe
from mdstorm_backend.spark.session import is_local, short_reason
from mdstorm_backend.storage import Location
from mdstorm_backend.write.directories import unwritable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: How `make_task` begins to say that workers cannot import mdstorm.
_OURS = re.compile(r"ImportError: (mdstorm cannot be imported on the Spark worker .+)")
#: How Spark's workers say that they lack what any task needs.
_SPARKS = re.compile(
    r"ModuleNotFoundError: No module named '(pyarrow|pandas)'"
    r"|PACKAGE_NOT_INSTALLED\] (PyArrow|Pandas)"
)
#: How Python names our error of a task that cannot write, and characters to repeat of its message.
_OF_TASKS = f"{WriteError.__module__}.{WriteError.__name__}: "
_LONGEST_OF_OURS = 2000
#: Tasks that are asked what they lack: so many that they run on every host of a small cluster.
_ASKED = 16


def collect_reports(mapped: DataFrame) -> list[str]:
    """Run the job of a frame that `make_task` maps, and return its reports in order.

    Raises
    ------
    MissingDependencyError
        If Python on the workers lacks mdstorm, or what Spark and mdstorm need there.
    WriteError
        If a task could not write a file, as on a full disk. Every other error is Spark's own.
    """
    try:
        return [row["report"] for row in mapped.collect()]
    except Exception as error:
        lacking = _lacking(error, mapped.sparkSession)
        if lacking:
            raise MissingDependencyError(lacking) from error
        _, is_ours, text = short_reason(error, longest=_LONGEST_OF_OURS).partition(_OF_TASKS)
        if is_ours:
            raise WriteError(text) from None  # Spark's error repeats it below two tracebacks
        raise


def _lacking(error: Exception, session: SparkSession) -> str:
    """Return what an error of Spark says of libraries that workers lack; empty if nothing."""
    reason = short_reason(error)
    if ours := _OURS.match(reason):
        return ours[1]
    found = _SPARKS.search(reason)
    if found is None:
        return ""
    name = (found[1] or found[2]).lower()
    if is_local(session):
        return (
            f"Python on the Spark workers has no {name}. Set the environment variable "
            f"PYSPARK_PYTHON to {sys.executable} before Spark starts, or activate its environment"
        )
    return (
        f"Python on {_worker_without(name, session)} has no {name}. Install mdstorm on the workers "
        "as well, or set PYSPARK_PYTHON to a Python that has it"
    )


def _worker_without(module: str, session: SparkSession) -> str:
    """Name a worker that lacks a library, which a job that needs none finds out.

    The error of a task does not say in every version of Spark where it has run.
    """
    from pyspark.sql.functions import udf

    def host_without(_: int) -> str:
        import importlib.util
        import socket

        return "" if importlib.util.find_spec(module) else socket.gethostname()

    tasks = session.range(0, _ASKED, 1, _ASKED)
    try:
        rows = tasks.select(udf(host_without, "string", useArrow=False)("id")).collect()
    except Exception:  # each kind of session raises errors of its own
        rows = []
    found = [host for (host,) in rows if host]
    return f"the Spark worker {found[0]}" if found else "the Spark workers"


_DRIVER_NAME = "driver"


def check_driver_writes(location: Location) -> None:
    """Let this process write a small file, and remove it.

    Raises
    ------
    CredentialsError, StorageError
        If the storage refuses it. What its library raised is not chained: the message says it.
    WriteError
        If it cannot be written on a disk of this machine.
    """
    with _probe_directory(location):
        pass


def why_not_writable(session: SparkSession, location: Location) -> str:
    """Let an executor write a small file, and check that this process sees it.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Of either kind; runs a job of one task.
    location : Location
        The directory.

    Returns
    -------
    str
        Why executors cannot write there, in one line; empty if they can. A job that fails is a
        reason like any other: the session may refuse Python code.

    Raises
    ------
    CredentialsError, StorageError, WriteError
        If this process cannot write there either; no job has run then.
    MissingDependencyError
        If Python on the executors lacks mdstorm or what it needs.
    """
    with _probe_directory(location) as directory:
        arguments = {"url": directory.url, "storage_options": directory.storage_options}
        task = make_task(write_probe, arguments)
        try:
            mapped = session.range(0, 1, 1, 1).mapInArrow(task, REPORT_SCHEMA)
            (refused,) = collect_reports(mapped)
        except MissingDependencyError:
            raise
        except Exception as error:  # each kind of session raises errors of its own
            return short_reason(error)
        if refused:
            return refused
        if not directory.exists(PROBE_NAME):
            return "what an executor wrote there cannot be seen from the driver"
        return ""


@contextmanager
def _probe_directory(location: Location) -> Iterator[Location]:
    """Make a directory that this process can write to, and remove it at the end."""
    directory = location.child(f"_mdstorm_probe_{secrets.token_hex(8)}")
    try:
        directory.make_directory()  # as the driver does for a dataset
        directory.write(_DRIVER_NAME, [b"The driver can write here.\n"])
    except (CredentialsError, StorageError) as error:
        raise error from None
    except OSError as error:
        _remove(directory)
        raise unwritable(location, error) from None
    try:
        yield directory
    finally:
        _remove(directory)


def _remove(directory: Location) -> None:
    with suppress(OSError):
        directory.remove(_DRIVER_NAME)
        directory.remove(PROBE_NAME)
        directory.remove_directory_if_empty()
