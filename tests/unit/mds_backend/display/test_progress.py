"""Progress is shown only once, and only in terminals and notebooks."""

import io
import logging
import os
import pty
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from IPython.utils.capture import RichOutput, capture_output
from tests.kit.small_datasets import write_ints
from tests.unit.mds_backend.conftest import Terminal

from mdstorm_backend import MDSWriter
from mdstorm_backend.display import ProgressLine, human_bytes, progress
from mdstorm_backend.maintenance import verify

_ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def _quickly_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdstorm_backend.display.progress_line.INTERVAL", 0.0)
    monkeypatch.setenv("TERM", "xterm")


def new_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replace standard error with a terminal; called in each test, after pytest has replaced it."""
    monkeypatch.setattr(sys, "stderr", found := Terminal())
    return found


def work(given: Any = None) -> None:
    with progress("Counting", "things", given) as on_progress:
        for done in (1, 2, 3):
            on_progress(done, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "it"
    write_ints(path, range(100), size_limit=300)
    return path


def test_progress_bar_is_erased_when_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = new_terminal(monkeypatch)
    threads = threading.active_count()
    with progress("Counting", "things") as on_progress:
        on_progress(1, 3)
        assert "1 of 3 things" in terminal.getvalue()
        assert threading.active_count() == threads
    assert terminal.getvalue().endswith("\x1b[2K")


def test_text_printed_under_a_progress_bar_goes_to_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = new_terminal(monkeypatch)
    with progress("Counting", "things"):
        print("a result")
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in terminal.getvalue()


def test_progress_bar_redraws_are_rate_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = new_terminal(monkeypatch)
    monkeypatch.setattr("mdstorm_backend.display.progress_line.INTERVAL", 3600.0)
    work()
    assert "1 of 3 things" in terminal.getvalue()
    assert "2 of 3 things" not in terminal.getvalue()


def test_nested_progress_bar_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    new_terminal(monkeypatch)
    with ProgressLine("Outer"), ProgressLine("Inner") as inner:
        assert not inner.is_shown
    with ProgressLine("Next") as line:
        assert line.is_shown


def test_progress_callback_replaces_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = new_terminal(monkeypatch)
    reported: list[tuple[int, int]] = []
    work(lambda done, total: reported.append((done, total)))
    assert reported == [(1, 3), (2, 3), (3, 3)]
    assert terminal.getvalue() == ""


def test_progress_is_hidden_by_environment_variable_and_on_nonzero_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = new_terminal(monkeypatch)
    for value in ("off", "0", "False", "no"):
        monkeypatch.setenv("MDSTORM_PROGRESS", value)
        work()
    monkeypatch.delenv("MDSTORM_PROGRESS")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in ("1", "nonsense"):
        monkeypatch.setenv("RANK", rank)
        work()
    assert terminal.getvalue() == ""
    monkeypatch.setenv("RANK", "0")
    work()
    assert "3 of 3 things" in terminal.getvalue()


def write_files(folder: Path, *, shown: bool) -> None:
    columns = {"id": "int64"}
    with MDSWriter(
        columns=columns, out=str(folder), size_limit=300, progress_bar=shown, max_workers=1
    ) as writer:
        for number in range(100):
            writer.write({"id": number})


def test_writer_shows_files_and_bytes_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = new_terminal(monkeypatch)
    write_files(tmp_path / "quiet", shown=False)
    assert terminal.getvalue() == ""
    write_files(tmp_path / "shown", shown=True)
    sizes = [file.stat().st_size for file in (tmp_path / "shown").iterdir()]
    assert f"{len(sizes)} files, {human_bytes(sum(sizes))}" in terminal.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_progress_writes_nothing_to_logs(
    stream: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    with caplog.at_level(logging.DEBUG, logger="mdstorm_backend.display"):
        work()
        write_files(tmp_path / "it", shown=True)
    assert stream is None or stream.getvalue() == ""
    assert not caplog.records


def test_broken_terminal_does_not_stop_work_with_progress_bar(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = new_terminal(monkeypatch)

    def broken(text: str) -> int:
        raise BrokenPipeError

    with progress("Counting", "things") as on_progress:
        monkeypatch.setattr(terminal, "write", broken)
        on_progress(1, 3)
        on_progress(2, 3)
    again = new_terminal(monkeypatch)
    work()
    assert "3 of 3 things" in again.getvalue()


@pytest.mark.usefixtures("notebook")
def test_progress_in_a_notebook_updates_one_output(folder: Path) -> None:
    with capture_output() as captured:
        shards = verify(str(folder)).shards
    outputs: list[RichOutput] = captured.outputs
    assert len({output.transient["display_id"] for output in outputs}) == 1
    assert [output.update for output in outputs] == [False] + [True] * (len(outputs) - 1)
    bars = [output for output in outputs if "<progress" in output.data["text/html"]]
    assert 'value="1" max="' in bars[0].data["text/html"]
    assert outputs[-1].data["text/plain"].startswith(f"Checking shards: {shards} of {shards} ")
    assert "<progress" not in outputs[-1].data["text/html"]
    assert captured.stdout == captured.stderr == ""


@pytest.mark.usefixtures("notebook")
def test_notebook_shows_the_item_at_which_failed_work_stopped() -> None:
    def fail() -> None:
        with progress("Counting", "things") as on_progress:
            on_progress(2, 3)
            raise ValueError("why")

    with capture_output() as captured, pytest.raises(ValueError, match="why"):
        fail()
    assert "stopped after 2 of 3 things" in captured.outputs[-1].data["text/plain"]


def _in_pty(arguments: list[str], **variables: str) -> tuple[str, str]:
    """Run a command with a pseudo-terminal as standard error, and return both outputs."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **variables}
    program = [sys.executable, "-c", "import mdstorm.cli; mdstorm.cli.main()", *arguments]
    with subprocess.Popen(
        program, cwd=_ROOT, stdout=subprocess.PIPE, stderr=follower, env=environment
    ) as child:
        os.close(follower)
        found = b""
        with open(leader, "rb", buffering=0) as terminal, suppress(OSError):
            while data := terminal.read(65536):  # until the other end closes
                found += data
        assert child.stdout is not None
        out = child.stdout.read().decode()
    assert child.returncode == 0, found
    return out, found.decode()


@pytest.mark.long
def test_command_shows_progress_on_stderr_and_result_on_stdout(
    folder: Path,
) -> None:
    out, err = _in_pty(["verify", str(folder)])
    assert "Checking shards" in err
    assert "Checking" not in out
    assert "everything can be read" in out
    assert err.rstrip().endswith("\x1b[2K")
    quiet_out, quiet_err = _in_pty(["verify", str(folder)], MDSTORM_PROGRESS="off")
    assert (quiet_out, quiet_err) == (out, "")
