"""The progress line of a job shows its tasks, rows and bytes, and only on terminals."""

import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import IS_CONNECT, IS_REFUSING, runs_python_on_executors
from tests.unit.mds_backend import conftest

from mdstorm_backend import open_dataset
from mdstorm_backend.convert import materialize_staged
from mdstorm_backend.spark import job_progress, materialize
from mdstorm_backend.spark.job_progress import write_progress
from mdstorm_backend.storage import Location


class Terminal(conftest.Terminal):
    """A terminal that sets an event once it shows a given string."""

    def __init__(self, awaited: str = "") -> None:
        super().__init__()
        self.awaited = awaited
        self.drawn = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if self.awaited in self.getvalue():
            self.drawn.set()
        return count


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mdstorm-progress"]


def session(bar: str = "false", **attributes: Any) -> Any:
    conf = SimpleNamespace(get=lambda key, default: bar)
    return SimpleNamespace(conf=conf, **attributes)


class Context:
    """A Spark context in which a job of another thread is done, and a job of this one begins."""

    def __init__(self, failed: int = 0) -> None:
        self.jobs = [3]
        self.stages = {
            5: SimpleNamespace(  # done
                numTasks=8, numActiveTasks=0, numCompletedTasks=8, numFailedTasks=0
            ),
            6: SimpleNamespace(  # skipped
                numTasks=8, numActiveTasks=0, numCompletedTasks=0, numFailedTasks=0
            ),
            7: SimpleNamespace(
                numTasks=40, numActiveTasks=2, numCompletedTasks=3, numFailedTasks=failed
            ),
            8: None,  # not known yet
        }

    def accumulator(self, value: int) -> Any:
        return SimpleNamespace(value=value)

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        return name

    def statusTracker(self) -> Any:  # noqa: N802
        return SimpleNamespace(
            getJobIdsForGroup={"spark.jobGroup.id": self.jobs}.__getitem__,
            getJobInfo={4: SimpleNamespace(stageIds=[7, 5, 6, 8]), 5: None}.__getitem__,
            getStageInfo=self.stages.__getitem__,
        )


@pytest.fixture
def location(tmp_path: Path) -> Location:
    for name in ("part-00000-0.00000.mds", "part-00001-1.00000.mds.zstd"):
        (tmp_path / name).write_bytes(b"x" * 1_500_000)
    (tmp_path / "notes.txt").write_bytes(b"x" * 9_000_000)
    return Location.of(str(tmp_path))


@pytest.fixture(autouse=True)
def _quick_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_progress, "INTERVAL_SECONDS", 0.01)
    monkeypatch.setenv("TERM", "xterm")


def refused(self: Location) -> Any:
    raise PermissionError("not here")


@pytest.mark.parametrize(
    ("place", "shown"),
    [("full", "2 shards, 3.0 MB"), ("empty", ": 0 shards"), ("refused", "Spark is at work")],
)
def test_terminal_shows_shards_and_bytes_while_job_is_running(
    place: str, shown: str, location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "refused":
        monkeypatch.setattr(Location, "list_sizes", refused)
    if place == "empty":
        location = location.child(place)
        location.make_directory()
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(awaited=shown))
    with write_progress(session(), location):
        assert watchers()
        assert terminal.drawn.wait(timeout=60)
    assert not watchers()


@pytest.mark.parametrize(
    ("failed", "shown"), [(0, ": 3 of 40 tasks, 2 shards, "), (5, ": 3 of 40 tasks, 5 failed, ")]
)
def test_terminal_shows_tasks_of_the_jobs_latest_stage(
    failed: int, shown: str, location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = Context(failed)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(awaited=shown))
    with write_progress(session(sparkContext=context), location):
        context.jobs += [4, 5]
        assert terminal.drawn.wait(timeout=60)


def test_terminal_shows_rates_of_counted_rows_and_written_bytes(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(awaited=" rows/s, "))
    with write_progress(session(sparkContext=Context()), location) as rows:
        rows.value += 1_000_000
        assert terminal.drawn.wait(timeout=60)
    assert re.search(r"MB, [\d,]+ rows/s, [\d.,]+ [kMGT]B/s, \d+ s", terminal.getvalue())


@runs_python_on_executors
def test_spark_counts_the_rows_and_tasks_of_the_job(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if IS_CONNECT or IS_REFUSING:
        pytest.skip("only a SparkContext counts them")
    monkeypatch.setattr("mdstorm_backend.display.progress_line.INTERVAL", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    materialize(spark.range(1000, numPartitions=3), str(tmp_path / "out"))
    assert ": 3 of 3 tasks, 3 shards, " in terminal.getvalue()
    assert " rows/s, " in terminal.getvalue()


@pytest.mark.parametrize("shown", [True, False])
def test_progress_is_hidden_if_disabled_or_if_spark_shows_its_own_bar(
    shown: bool, location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with write_progress(session(bar="true") if shown else session(), location, shown=shown):
        assert not watchers()
    assert terminal.getvalue() == ""


@runs_python_on_executors
@pytest.mark.parametrize("staged", [False, True])
def test_progress_of_each_job_shows_its_description(
    spark: Any, staged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    url = str(tmp_path / "out")
    if staged:
        materialize_staged(spark.range(10), url, (tmp_path / "staging").as_uri())
    else:
        materialize(spark.range(10), url)
    assert ("Staging Parquet" if staged else "Writing MDS shards") in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")
    assert not watchers()
    assert len(open_dataset(url)) == 10
