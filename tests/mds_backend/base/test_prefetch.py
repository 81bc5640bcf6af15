import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from tests.programs import run_program

from mdstorm_backend.base import threads
from mdstorm_backend.base.threads import Prefetcher


def test_no_more_items_are_taken_than_may_be_ahead_in_the_callers_thread() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for n in range(20):
            assert threading.current_thread() is threading.main_thread()
            taken.append(n)
            yield n

    with Prefetcher(2, 3) as prefetcher:
        results = prefetcher.map(lambda n: n, items())
        for n in range(10):
            assert next(results) == n
            assert len(taken) <= n + 3


def test_the_first_item_does_not_wait_for_a_second_one_where_it_is_made_here() -> None:
    taken: list[int] = []
    made_by: list[threading.Thread] = []

    def items() -> Iterator[int]:
        for n in range(5):
            taken.append(n)
            yield n

    def make(n: int) -> int:
        made_by.append(threading.current_thread())
        return n

    with Prefetcher(1, 2) as prefetcher:
        results = prefetcher.map(make, items(), first_here=True)
        assert next(results) == 0
        assert taken == [0]
        assert next(results) == 1
        assert taken == [0, 1, 2]  # one ahead of use
        assert list(results) == [2, 3, 4]
    assert made_by[0] is threading.current_thread()
    assert threading.current_thread() not in made_by[1:]


class AtOnce:
    """Stands for a pool whose threads are done before anybody looks."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, function: Any, item: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(item))
        return future

    def shutdown(self, **_: Any) -> None:
        pass


def test_a_result_that_is_there_does_not_wait_for_all_that_may_be_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "OrderedPool", AtOnce)
    taken: list[int] = []
    with Prefetcher(2, 10) as prefetcher:
        results = prefetcher.map(taken.append, range(20))
        next(results)
        assert len(taken) == 2
        next(results)
        assert len(taken) == 4


def test_calls_that_are_under_way_share_threads() -> None:
    both = threading.Barrier(2)

    def share(_: int) -> int:
        both.wait(timeout=30)
        found = prefetcher.share_of(5)
        both.wait(timeout=30)
        return found

    with Prefetcher(2, 2) as prefetcher:
        assert list(prefetcher.map(share, range(2))) == [2, 2]


def test_a_call_has_one_thread_once_results_are_ready_when_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "OrderedPool", AtOnce)
    with Prefetcher(2, 2) as prefetcher:
        shares = list(prefetcher.map(lambda _: prefetcher.share_of(5), range(4)))
    assert shares == [5, 5, 1, 1]


#: Forks while a thread makes Arrow import pandas, and lets the child process use Arrow.
_FORK_DURING_AN_IMPORT = """
import os, signal, sys, threading
import pyarrow as pa
from mdstorm_backend.base.threads import Prefetcher

begun, forking = threading.Event(), threading.Event()

class SlowStart:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            begun.set()
            assert forking.wait(60)

sys.meta_path.insert(0, SlowStart())
with Prefetcher(1, 1) as prefetcher:
    os.register_at_fork(before=forking.set)  # called before what was registered earlier
    read = threading.Thread(target=lambda: list(prefetcher.map(pa.array, [[0]])))
    read.start()
    assert begun.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        pa.array([0])
        os._exit(0)
    read.join()
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_need_not_wait_for_what_a_thread_imports(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    run_program(_FORK_DURING_AN_IMPORT, cwd=tmp_path)
