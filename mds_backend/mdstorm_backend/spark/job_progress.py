"""Show how far a Spark job is that writes shards or Parquet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

from mdstorm_backend.display import Drawn, counted, human_bytes, open_line
from mdstorm_backend.format.shard_names import parse_shard_name
from mdstorm_backend.spark.session import read_conf
from mdstorm_backend.storage import Location

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


@contextmanager
def _tasks_of(session: Any) -> Iterator[Callable[[], _Tasks]]:
    """Give a function that tells the tasks of what runs in the block. It never raises."""
    if type(session).__module__.startswith("pyspark.sql.connect."):
        with _told_by_connect(session) as tasks:
            yield tasks
    else:
        yield _tracked(session)


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
