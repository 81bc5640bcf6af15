"""The sizes and times of local files, as a dataset that is opened notes them."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.kit.clocks import Clock

from mdstorm_backend.storage import Pins, pins

FILES = 200


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    for number in range(FILES):
        (tmp_path / f"{number}").write_bytes(b"-" * number)
    return [f"{number}" for number in range(FILES)]


@pytest.mark.parametrize("seconds", [1e-6, 1e-3])
def test_files_are_pinned_in_threads_only_if_a_stat_is_slow(
    seconds: float, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, stat, together, threads = Clock(), os.stat, threading.Event(), set[int]()

    def slow(*args: Any, **options: Any) -> os.stat_result:
        threads.add(threading.get_ident())
        if threading.current_thread() is threading.main_thread():
            clock.advance(seconds)
        elif len(threads) > 2:
            together.set()
        else:
            assert together.wait(60)  # until another thread is here
        return stat(*args, **options)

    monkeypatch.setattr(pins, "perf_counter", clock)
    monkeypatch.setattr(os, "stat", slow)
    found = Pins(str(tmp_path), names)
    monkeypatch.undo()
    assert (len(threads) > 1) == (seconds == 1e-3)
    sizes = [pin[0] for pin in map(found.get, names) if pin is not None]
    assert sizes == [*range(FILES)]
