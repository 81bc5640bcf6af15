"""A working directory of the test's own, which the paths of a project are relative to."""

from pathlib import Path

import pytest


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
