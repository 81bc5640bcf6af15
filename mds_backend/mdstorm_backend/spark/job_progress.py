"""The progress of a Spark job: its tasks, and the shards, rows and bytes that they have written."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mdstorm_backend.display import ProgressLine, counted, human_bytes
from mdstorm_backend.format.shard_names import parse_shard_name
from mdstorm_backend.spark import sessions
from mdstorm_backend.storage import Location

#: Minimum number of seconds between listings of the directory.
INTERVAL_SECONDS = 1.0
#: Maximum share of the time to spend on listings, which may be slow on remote storage.
_SHARE_OF_LISTING = 0.1

_logger = logging.getLogger(__name__)


@contextmanager
def write_progress(
    session: Any, location: Location | None, what: str = "Writing MDS shards", *, shown: bool = True
) -> Iterator[Any]:
    """Show what is known of the job that runs in a block.

    Tasks and rows are known only on classic sessions. Shards and bytes are counted by listing the
    directory, which works with every kind of session.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        The session of the job.
    location : Location, optional
        Where shards are written.
    what : str
        Description of the job.
    shown : bool
        Whether to show anything.

    Yields
    ------
    pyspark.Accumulator or None
        Counts rows, if tasks add theirs; None if nothing is shown or Spark has no accumulators.
    """
    has_own_bar = sessions.read_conf(session, "spark.ui.showConsoleProgress") == "true"
    with ProgressLine(what, shown=shown, in_terminal=not has_own_bar) as line:
        if not line.is_shown:
            yield None
            return
        job, ended = _Job(session, location), threading.Event()

        def watch() -> None:
            pause = INTERVAL_SECONDS
            while not ended.wait(pause):
                begun = time.monotonic()
                job.draw(line)
                pause = max(INTERVAL_SECONDS, (time.monotonic() - begun) / _SHARE_OF_LISTING)

        thread = threading.Thread(target=watch, name="mdstorm-progress", daemon=True)
        thread.start()
        try:
            yield job.rows
        finally:
            ended.set()
            thread.join()
            job.draw(line)


class _Job:
    """The jobs that begin in this thread's job group from now on."""

    def __init__(self, session: Any, location: Location | None) -> None:
        self._location, self._begun = location, time.monotonic()
        self.rows = self._tracker = None
        try:
            context = session.sparkContext
            self.rows = context.accumulator(0)
            self._group = context.getLocalProperty("spark.jobGroup.id")
            tracker = context.statusTracker()
            self._earlier = frozenset(tracker.getJobIdsForGroup(self._group))
            self._tracker = tracker
        except Exception:  # Spark Connect and shared clusters refuse it, each with its own error
            _logger.debug("this session does not count tasks and rows", exc_info=True)

    def draw(self, line: ProgressLine) -> None:
        """Show the numbers that are known."""
        seconds = max(time.monotonic() - self._begun, 1e-9)
        parts, rates, done, total = [], [], 0, None
        if stage := self._stage():
            done, total = stage.numCompletedTasks, stage.numTasks
            parts.append(f"{done:,} of {total:,} tasks")
            if stage.numFailedTasks:
                parts.append(f"{stage.numFailedTasks:,} failed")
        if self.rows is not None and self.rows.value:
            rates.append(f"{self.rows.value / seconds:,.0f} rows/s")
        sizes = self._sizes()
        if sizes is not None:
            parts.append(counted(len(sizes), "shard"))
        if sizes:
            parts.append(human_bytes(sum(sizes)))
            rates.append(f"{human_bytes(sum(sizes) / seconds)}/s")
        line.draw(", ".join([*parts, *rates]) or "Spark is at work", done, total)

    def _stage(self) -> Any:
        """Return the latest stage whose tasks have begun; None if there is none or it is unknown.

        Earlier stages are left out, because Spark also lists those that it skips.
        """
        if self._tracker is None:
            return None
        try:
            numbers = set(self._tracker.getJobIdsForGroup(self._group)) - self._earlier
            jobs = [self._tracker.getJobInfo(number) for number in sorted(numbers)]
            stages = sorted(number for job in jobs if job for number in job.stageIds)
            for stage in map(self._tracker.getStageInfo, reversed(stages)):
                if stage and stage.numActiveTasks + stage.numCompletedTasks + stage.numFailedTasks:
                    return stage
        except Exception:  # Spark may have stopped
            _logger.debug("the tasks cannot be counted", exc_info=True)
        return None

    def _sizes(self) -> list[int] | None:
        """Return the sizes of the written shards; None if they are unknown."""
        if self._location is None:
            return None
        try:
            found = self._location.list_sizes()
            return [size for name, size in found if parse_shard_name(name)]
        except Exception:  # executors may write where this process has no access
            _logger.debug("the shards cannot be counted", exc_info=True)
            return None
