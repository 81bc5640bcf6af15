"""Run Spark jobs: collect reports, explain what workers lack, and show progress."""

from __future__ import annotations

import re
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mdstorm_backend import errors
from mdstorm_backend.display import ThrottledLine, counted, human_bytes, open_line
from mdstorm_backend.format.shard_info import parse_shard_name
from mdstorm_backend.spark.session import is_local, read_conf, short_reason
from mdstorm_backend.storage import Location
from mdstorm_backend.write.directories import unwritable
from mdstorm_backend.write.tasks import PROBE_NAME, REPORT_SCHEMA, make_task, write_probe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: The error of a `make_task` function if workers cannot import mdstorm.
_NO_MDSTORM = re.compile(r"ImportError: (mdstorm cannot be imported on the Spark worker .+)")
#: The errors of Spark's workers that lack a library which every task needs.
_NO_LIBRARY = re.compile(
    r"ModuleNotFoundError: No module named '(pyarrow|pandas)'"
    r"|PACKAGE_NOT_INSTALLED\] (PyArrow|Pandas)"
)
#: How a traceback begins the line of a task's WriteError, and the most characters to repeat of it.
_WRITE_ERROR = f"{errors.WriteError.__module__}.{errors.WriteError.__name__}: "
_LONGEST_WRITE_ERROR = 2000


def collect_reports(mapped: DataFrame) -> list[str]:
    """Run the job of a frame that is mapped with `make_task`, and return its reports in order.

    Raises
    ------
    MissingDependencyError
        If Python on the workers lacks mdstorm, or a library that Spark or mdstorm needs there.
    WriteError
        If a task could not write a file, as on a full disk. Every other error is Spark's own.
    KeyboardInterrupt
        If the user interrupts the job, even if Spark's clean-up then fails with another error,
        since its connection was in use.
    """
    try:
        return [row["report"] for row in mapped.collect()]
    except Exception as error:
        _check_interrupted(error)
        lacking = _lacking(error, mapped.sparkSession)
        if lacking:
            raise errors.MissingDependencyError(lacking) from error
        _, is_ours, text = short_reason(error, longest=_LONGEST_WRITE_ERROR).partition(_WRITE_ERROR)
        if is_ours:
            raise errors.WriteError(text) from None  # Spark's error repeats it below two tracebacks
        raise


def _check_interrupted(error: BaseException | None) -> None:
    """Raise the KeyboardInterrupt in the context of an error, if there is one."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            raise error
        error = error.__context__


def _lacking(error: Exception, session: SparkSession) -> str:
    """Return a message if a Spark error means that workers lack a library; otherwise empty."""
    reason = short_reason(error)
    if ours := _NO_MDSTORM.match(reason):
        return ours[1]
    found = _NO_LIBRARY.search(reason)
    if found is None:
        return ""
    name = (found[1] or found[2]).lower()
    if is_local(session):
        return (
            f"Python on the Spark workers has no {name}. Set the environment variable "
            f"PYSPARK_PYTHON to {sys.executable} before Spark starts, or activate its environment"
        )
    return (
        f"Python on a Spark worker has no {name}. Install mdstorm on all workers as well, or set "
        "PYSPARK_PYTHON to a Python that has it"
    )


_DRIVER_NAME = "driver"


def check_driver_writes(location: Location) -> None:
    """Write a small file from this process, and remove it.

    Raises
    ------
    CredentialsError, StorageError
        If the storage refuses the file. Its library's error is not chained: the message quotes it.
    WriteError
        If the file cannot be written to a disk of this machine.
    """
    with _probe_directory(location):
        pass


def why_not_writable(session: SparkSession, location: Location) -> str:
    """Write a small file from an executor, and check that this process sees it.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        A classic or a Spark Connect session; runs a job of one task.
    location : Location
        The directory.

    Returns
    -------
    str
        Why executors cannot write there, in one line; empty if they can. A failed job is a reason
        too, since the session may refuse Python code.

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
        except errors.MissingDependencyError:
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
    """Create a directory, check that this process can write to it, and remove it at the end."""
    directory = location.child(f"_mdstorm_probe_{secrets.token_hex(8)}")
    try:
        directory.make_directory()  # as the driver does for a dataset
        directory.write(_DRIVER_NAME, [b"The driver can write here.\n"])
    except (errors.CredentialsError, errors.StorageError) as error:
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


#: Seconds between two listings of the directory.
_INTERVAL_SECONDS = 1.0
#: Largest share of the time that is spent on listings, which may be slow on remote storage.
_SHARE_OF_LISTING = 0.1

#: A session's first job starts the workers, which may take longer than the rest of the job.
_NO_SHARDS = "no shards yet: Python starts first"


@contextmanager
def write_progress(
    session: Any,
    location: Location | None,
    what: str = "Writing MDS shards",
    *,
    shown: bool = True,
) -> Iterator[None]:
    """Show the time that the job in a block takes, and the shards and bytes written so far.

    The numbers come from listing the directory, which works with every kind of session.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session of the job.
    location : Location, optional
        Where shards are written; without it, only the time is shown.
    what : str
        Description of the job.
    shown : bool
        Whether to show anything.
    """
    has_own_bar = read_conf(session, "spark.ui.showConsoleProgress") == "true"
    line = open_line(in_terminal=not has_own_bar) if shown else None
    if line is None:
        yield
        return
    drawn, done = ThrottledLine(line, what), threading.Event()
    thread = threading.Thread(
        target=_watch, args=(location, drawn, done), name="mdstorm-progress", daemon=True
    )
    thread.start()
    ended = "stopped"
    try:
        yield
        ended = ""
    finally:
        done.set()
        thread.join()
        drawn.close(ended or _written(location) or "done")


def _watch(location: Location | None, drawn: ThrottledLine, done: threading.Event) -> None:
    pause = _INTERVAL_SECONDS
    while not done.wait(pause):
        begun = time.monotonic()
        drawn.draw(_written(location) or "Spark is at work")
        pause = max(_INTERVAL_SECONDS, (time.monotonic() - begun) / _SHARE_OF_LISTING)


def _written(location: Location | None) -> str:
    """Return a text with the number and the size of the written shards; empty if unknown."""
    if location is None:
        return ""
    try:
        found = [size for name, size in location.list_sizes() if parse_shard_name(name)]
    except Exception:  # executors may write where this process cannot look
        return ""
    return f"{counted(len(found), 'shard')}, {human_bytes(sum(found))}" if found else _NO_SHARDS
