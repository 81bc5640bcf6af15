"""Run jobs: what their tasks report, what workers lack, and how far a job is."""

from __future__ import annotations

import re
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from mdstorm_backend.display import Drawn, counted, human_bytes, open_line
from mdstorm_backend.errors import (
    CredentialsError,
    MissingDependencyError,
    StorageError,
    WriteError,
)
from mdstorm_backend.executors.tasks import PROBE_NAME, REPORT_SCHEMA, make_task, write_probe
from mdstorm_backend.format.shard_info import parse_shard_name
from mdstorm_backend.spark.session import is_connect, is_local, read_conf, short_reason
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
    KeyboardInterrupt
        Also where Spark's own clean-up fails at it, over the connection that was in use.
    """
    try:
        return [row["report"] for row in mapped.collect()]
    except Exception as error:
        _check_interrupted(error)
        lacking = _lacking(error, mapped.sparkSession)
        if lacking:
            raise MissingDependencyError(lacking) from error
        _, is_ours, text = short_reason(error, longest=_LONGEST_OF_OURS).partition(_OF_TASKS)
        if is_ours:
            raise WriteError(text) from None  # Spark's error repeats it below two tracebacks
        raise


def _check_interrupted(error: BaseException | None) -> None:
    """Raise KeyboardInterrupt if an error came up while one was on its way."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            raise error
        error = error.__context__


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


#: Seconds between two looks at the job.
_INTERVAL_SECONDS = 1.0
#: Looking at the directory takes at most this part of the time: on remote storage it may be slow.
_SHARE_OF_LISTING = 0.1

#: A session's first job starts the workers, which may take longer than all else.
_NO_SHARDS = "no shards yet: Python starts first"

#: Tasks that are done, and all that are known; None where the session does not tell.
_Tasks: TypeAlias = tuple[int, int] | None


@contextmanager
def write_progress(
    session: Any,
    location: Location | None,
    what: str = "Writing MDS shards",
    *,
    shown: bool = True,
) -> Iterator[None]:
    """Show what a job in this block has done: its tasks, and the shards and bytes written.

    It looks at the directory, which works on every kind of session; and it asks for the tasks, of
    a classic session by its status tracker, and of one on Spark Connect by its progress handler,
    where there is one. Where neither is allowed the time that it takes is left.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session of the job.
    location : Location, optional
        Where shards are written.
    what : str
        What the job does.
    shown : bool
        False for silence.
    """
    has_own_bar = read_conf(session, "spark.ui.showConsoleProgress") == "true"
    line = open_line(in_terminal=not has_own_bar) if shown else None
    if line is None:
        yield
        return
    drawn, done = Drawn(line, what), threading.Event()
    with _tasks_of(session) as tasks:
        job = _Job(location, tasks)
        thread = threading.Thread(
            target=_watch, args=(job, drawn, done), name="mdstorm-progress", daemon=True
        )
        thread.start()
        ended = "stopped"
        try:
            yield
            ended = ""
        finally:
            done.set()
            thread.join()
            if not ended:
                job.look()
            drawn.close(", ".join(filter(None, [ended, job.text])) or "done")


class _Job:
    """What is known of a job."""

    def __init__(self, location: Location | None, tasks: Callable[[], _Tasks]) -> None:
        self._location = location
        self._tasks = tasks
        self._listed_at = self._listing_took = 0.0
        self._files: str | None = None
        #: What was shown last.
        self.text: str | None = None

    def look(self) -> tuple[str, _Tasks]:
        """Return what to show."""
        self._list()
        tasks = self._tasks()
        texts = [self._files, f"{tasks[0]:,} of {tasks[1]:,} tasks" if tasks else None]
        self.text = ", ".join(text for text in texts if text) or None
        return self.text or "Spark is at work", tasks

    def _list(self) -> None:
        now = time.monotonic()
        if self._location is None or now - self._listed_at < self._listing_took:
            return
        try:
            found = [size for name, size in self._location.list_sizes() if parse_shard_name(name)]
            written = f"{counted(len(found), 'shard')}, {human_bytes(sum(found))}"
            self._files = written if found else _NO_SHARDS
        except Exception:  # executors may write where this process cannot look
            self._location = None
        self._listed_at = time.monotonic()
        self._listing_took = (self._listed_at - now) / _SHARE_OF_LISTING


def _watch(job: _Job, drawn: Drawn, done: threading.Event) -> None:
    while not done.wait(_INTERVAL_SECONDS):
        text, tasks = job.look()
        drawn.draw(text, *(tasks or ()))


def _tasks_of(session: Any) -> AbstractContextManager[Callable[[], _Tasks]]:
    """Give a function that tells the tasks of what runs in the block. It never raises."""
    return _told_by_connect(session) if is_connect(session) else nullcontext(_tracked(session))


@contextmanager
def _told_by_connect(session: Any) -> Iterator[Callable[[], _Tasks]]:
    told: list[_Tasks] = [None]

    def handler(stages: Any = None, **_: Any) -> None:
        with suppress(Exception):
            found = list(stages or ())
            done = sum(stage.num_completed_tasks for stage in found)
            told[0] = (done, sum(stage.num_tasks for stage in found)) if found else told[0]

    try:
        session.registerProgressHandler(handler)
    except Exception:  # before PySpark 4, or refused
        yield lambda: None
        return
    try:
        yield lambda: told[0]
    finally:
        with suppress(Exception):
            session.removeProgressHandler(handler)


def _tracked(session: Any) -> Callable[[], _Tasks]:
    try:
        tracker = session.sparkContext.statusTracker()
        others = frozenset(tracker.getActiveJobsIds())
    except Exception:  # shared clusters refuse the JVM
        return lambda: None

    def tasks() -> _Tasks:
        try:
            ours = set(tracker.getActiveJobsIds()) - others
            jobs = [job for job in map(tracker.getJobInfo, ours) if job is not None]
            ids = {id_ for job in jobs for id_ in job.stageIds}
            stages = [stage for stage in map(tracker.getStageInfo, ids) if stage is not None]
        except Exception:  # the session ends
            return None
        total = sum(stage.numTasks for stage in stages)
        return (sum(stage.numCompletedTasks for stage in stages), total) if total else None

    return tasks
