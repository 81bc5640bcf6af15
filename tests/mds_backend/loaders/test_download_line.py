"""What the first pass of a loader shows of its downloads."""

import multiprocessing
import os
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from IPython.utils.capture import capture_output
from tests.mds_backend.conftest import Terminal

from mdstorm_backend import StreamingDataLoader, StreamingDataset
from mdstorm_backend.loaders.pass_recorders import DownloadLine
from mdstorm_backend.order import ExactOrder

ROWS, SHARDS = 40, 4


@pytest.fixture(autouse=True)
def _quickly_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdstorm_backend.loaders.pass_recorders._INTERVAL", 0.0)
    monkeypatch.setenv("TERM", "xterm")


def loader(url: str, tmp_path: Path, **options: Any) -> StreamingDataLoader:
    order = ExactOrder(world_size=options.pop("world_size", 1))
    dataset = StreamingDataset(remote=url, local=str(tmp_path / "cache"), order=order)
    return StreamingDataLoader(dataset, batch_size=4, **options)


def test_a_terminal_shows_downloads_until_the_first_batch(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    batches = iter(loader(url, tmp_path))
    next(batches)
    shown = terminal.getvalue()
    assert "Downloading shards" in shown
    assert " of at most 4, " in shown
    assert shown.endswith("\x1b[2K")
    assert len(list(batches)) == 9
    assert terminal.getvalue() == shown
    assert not [thread for thread in threading.enumerate() if "progress" in thread.name]


def test_what_is_in_the_cache_shows_nothing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(loader(url, tmp_path))
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    list(loader(url, tmp_path))
    assert terminal.getvalue() == ""


@pytest.mark.usefixtures("notebook")
def test_a_notebook_shows_the_downloads_of_the_whole_pass(url: str, tmp_path: Path) -> None:
    loaded = loader(url, tmp_path)
    with capture_output() as captured:
        list(loaded)
        list(loaded)
    texts = [output.data["text/plain"] for output in captured.outputs]
    assert len({output.transient["display_id"] for output in captured.outputs}) == 1
    assert texts[-1].startswith("Downloading shards: 4 files of at most 4, ")
    assert "<progress" not in captured.outputs[-1].data["text/html"]


class SharedTerminal(Terminal):
    """A terminal that forks of this process write to as well."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self.file = file

    def write(self, text: str) -> int:
        return os.write(self.file.fileno(), text.encode())


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_worker_processes_show_nothing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "shown").open("wb") as file:
        monkeypatch.setattr(sys, "stderr", SharedTerminal(file))
        workers = {"num_workers": 1, "multiprocessing_context": "fork"}
        assert len(list(loader(url, tmp_path, **workers))) == 10
    assert (tmp_path / "shown").read_bytes() == b""


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_does_not_wait_for_the_threads_of_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line, opening, goes_on = DownloadLine(), threading.Event(), threading.Event()

    def open_slowly(**_: Any) -> None:
        opening.set()
        goes_on.wait()

    monkeypatch.setattr("mdstorm_backend.loaders.pass_recorders.open_line", open_slowly)
    thread = threading.Thread(target=line.downloaded, args=(1,))
    thread.start()
    assert opening.wait(60)
    child = multiprocessing.get_context("fork").Process(target=line.ended)
    child.start()
    try:
        child.join(60)
        assert child.exitcode == 0
    finally:
        child.kill()
        goes_on.set()
        thread.join()
