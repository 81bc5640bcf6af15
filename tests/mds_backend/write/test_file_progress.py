from __future__ import annotations

import io
import sys

import pytest

from mdstorm_backend.display.progress import FileProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, wanted: bool) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("mdstorm_backend.display.drawn._INTERVAL", 0.0)
    progress = FileProgress(shown=wanted)
    progress.add(3_000_000)
    progress.add(4_000_000)
    progress.close()
    progress.close()
    return stream.getvalue()


def test_a_terminal_shows_files_and_bytes_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "2 files, 7.0 MB" in shown(monkeypatch, Terminal(), wanted=True)


def test_elsewhere_and_without_a_request_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), wanted=True) == ""
    assert shown(monkeypatch, Terminal(), wanted=False) == ""
