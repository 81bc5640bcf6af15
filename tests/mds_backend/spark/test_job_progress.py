"""The progress line: on terminals, and nowhere else."""

import io
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mdstorm_backend.spark import job_progress
from mdstorm_backend.spark.job_progress import write_progress
from mdstorm_backend.storage import Location


class Terminal(io.StringIO):
    """A terminal that tells when a text has been drawn."""

    def __init__(self, awaited: str = "") -> None:
        super().__init__()
        self.awaited = awaited
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        count = super().write(text)
        if self.awaited in self.getvalue():
            self.drawn.set()
        return count


def watchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mdstorm-progress"]


def session(**conf: str) -> Any:
    return SimpleNamespace(conf=SimpleNamespace(get=lambda key, default: conf.get("bar", default)))


@pytest.fixture
def location(tmp_path: Path) -> Location:
    for name in ("part-00000-0.00000.mds", "part-00001-1.00000.mds.zstd"):
        (tmp_path / name).write_bytes(b"x" * 1_500_000)
    (tmp_path / "notes.txt").write_bytes(b"x" * 9_000_000)
    return Location.of(str(tmp_path))


@pytest.fixture(autouse=True)
def _quick_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_progress, "_INTERVAL_SECONDS", 0.01)
    monkeypatch.setenv("TERM", "xterm")


def test_shards_and_bytes_are_shown_on_a_terminal(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(awaited="2 shards, 3.0 MB")
    monkeypatch.setattr(sys, "stderr", terminal)
    with write_progress(session(), location):
        assert watchers()
        assert terminal.drawn.wait(timeout=60)
    assert not watchers()


def test_the_line_ends_when_the_block_fails(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(ValueError, match="the job failed"), write_progress(session(), location):
        raise ValueError("the job failed")
    assert not watchers()


def test_nothing_is_shown_where_there_is_no_terminal(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with write_progress(session(), location):
        assert not watchers()
    assert stream.getvalue() == ""


def test_nothing_is_shown_beside_a_bar_of_spark(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with write_progress(session(bar="true"), location):
        assert not watchers()
    assert terminal.getvalue() == ""
