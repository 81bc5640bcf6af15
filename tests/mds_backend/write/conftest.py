"""Storages on which writing a file fails."""

from types import SimpleNamespace
from typing import Any

import pytest

from mdstorm_backend.storage import Location
from mdstorm_backend.write import directories


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds of the pauses between attempts, which nobody makes."""
    seconds: list[float] = []
    monkeypatch.setattr(directories, "time", SimpleNamespace(sleep=seconds.append))
    return seconds


@pytest.fixture
def failures(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """What writing a file raises, one error a time, until there are none."""
    errors: list[Exception] = []
    write = Location.write

    def fail(self: Location, name: str, buffers: Any) -> None:
        if errors:
            raise errors.pop(0)
        write(self, name, buffers)

    monkeypatch.setattr(Location, "write", fail)
    return errors
