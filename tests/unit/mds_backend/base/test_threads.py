"""Threads that work ahead, closed generators, and lock-free cached properties."""

import gc
import os
import threading
import weakref
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.kit.interrupting import CtrlC
from tests.kit.programs import run_program

from mdstorm_backend.base import cached_property, work_ahead
from mdstorm_backend.base.work_ahead import PassThreads, WorkAhead, current_priority

SECONDS = 30


def test_tasks_are_numbered_in_order_across_pools() -> None:
    with WorkAhead(1) as first, WorkAhead(3) as second:
        pools = [second, first, second, first, first]
        begun = [
            pool.begin(lambda _: (current_priority(), current_priority()), 0) for pool in pools
        ]
        found = [pool.result(one) for pool, one in zip(pools, begun, strict=True)]
    assert found == [(first, first) for first, _ in sorted(found)]
    assert current_priority() > found[-1][0]


@pytest.mark.parametrize("first_here", [False, True])
def test_pool_reads_no_more_items_ahead_than_its_limit(first_here: bool) -> None:
    taken: list[int] = []
    made_by: list[threading.Thread] = []

    def items() -> Iterator[int]:
        for n in range(20):
            assert threading.current_thread() is threading.main_thread()
            taken.append(n)
            yield n

    def make(n: int) -> int:
        made_by.append(threading.current_thread())
        return n

    with WorkAhead(2) as ahead:
        results = ahead.map(make, items(), 3, first_here=first_here)
        assert next(results) == 0
        assert len(taken) == 1 if first_here else len(taken) <= 3
        for n in range(1, 20):
            assert next(results) == n
            assert len(taken) <= n + 3
    here = [thread is threading.current_thread() for thread in made_by]
    assert here == [first_here] + [False] * 19


@pytest.mark.parametrize("threads", [0, 1])
def test_error_of_the_items_is_raised_after_the_preceding_results(threads: int) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ValueError("no fourth item")

    seen: list[int] = []
    with WorkAhead(threads) as ahead, pytest.raises(ValueError, match="no fourth item"):
        seen.extend(ahead.map(abs, items(), 5))
    assert seen == [0, 1, 2]


def test_calls_may_work_ahead_themselves() -> None:
    def total(number: int) -> int:
        with WorkAhead(1) as inner:
            return sum(inner.map(abs, range(number), 2))

    with WorkAhead(1) as outer:
        assert list(outer.map(total, range(4), 2)) == [0, 0, 1, 3]


class AtOnce(ThreadPoolExecutor):
    """A pool whose results are ready as soon as their calls are submitted."""

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:
        future = super().submit(function, *arguments)
        future.result()
        return future


def test_ready_results_are_yielded_while_others_are_being_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_ahead, "Threads", AtOnce)
    shares: list[int] = []
    with WorkAhead(2) as ahead:
        results = ahead.map(lambda _: shares.append(ahead.share_of(5)), range(20), 10)
        for taken in (2, 4):
            next(results)
            assert len(shares) == taken
    assert shares == [5, 5, 1, 1]


def test_concurrent_calls_get_equal_shares_of_the_threads() -> None:
    both = threading.Barrier(2)

    def share(_: int) -> int:
        both.wait(timeout=SECONDS)
        found = ahead.share_of(5)
        both.wait(timeout=SECONDS)
        return found

    with WorkAhead(2) as ahead:
        assert list(ahead.map(share, range(2), 2)) == [2, 2]


#: Forks while a thread makes Arrow import pandas, then uses Arrow in the child process.
_FORK_DURING_AN_IMPORT = """
import os, signal, sys, threading
import pyarrow as pa
from mdstorm_backend.base.work_ahead import WorkAhead

begun, forking = threading.Event(), threading.Event()

class SlowStart:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            begun.set()
            assert forking.wait(60)

sys.meta_path.insert(0, SlowStart())
with WorkAhead(1) as ahead:
    os.register_at_fork(before=forking.set)  # runs before functions registered earlier
    read = threading.Thread(target=lambda: list(ahead.map(pa.array, [[0]], 1)))
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


@pytest.mark.long
def test_fork_while_a_thread_imports_does_not_deadlock(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    run_program(_FORK_DURING_AN_IMPORT, cwd=tmp_path)


class Work:
    """A function that sets `begun` at its second item and then waits for `go`."""

    def __init__(self) -> None:
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, number: int) -> int:
        if number == 1:
            self.begun.set()
            assert self.go.wait(SECONDS)
            self.ended.set()
        return number

    def results(self) -> Generator[int, None, None]:
        """Return a generator suspended after its first result, with the second in progress."""
        results = prefetched(self)
        assert next(results) == 0
        assert self.begun.wait(SECONDS)
        return results


def prefetched(function: Any) -> Generator[Any, None, None]:
    with WorkAhead(1) as ahead:
        yield from ahead.map(function, range(10), 2)


@pytest.fixture
def work() -> Iterator[Work]:
    """A `Work` whose threads end with the test."""
    work = Work()
    yield work
    work.go.set()
    join_threads()


def own_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("mdstorm-prefetch")]


def join_threads() -> None:
    for thread in own_threads():
        thread.join(SECONDS)
        assert not thread.is_alive()


def outer(work: Work, threads: PassThreads) -> Iterator[int]:
    """A generator that wraps the generator returned by `work.results`."""
    with threads.closing(work.results()) as results:
        yield 0
        yield next(results)


@pytest.mark.parametrize("next_pass", [False, True])
def test_threads_of_a_dropped_generator_are_joined_by_its_owner(
    work: Work, next_pass: bool
) -> None:
    threads, second = PassThreads(), Work()
    results = outer(work, threads)
    next(results)
    del results  # does not join the thread, which may be waiting for a lock that the caller holds
    assert not work.ended.is_set()
    threading.Timer(0.01, work.go.set).start()
    if next_pass:
        second.go.set()
        assert list(outer(second, threads)) == [0, 1]
    else:
        threads.wait()
        assert not own_threads()
    assert work.ended.is_set()


def test_closing_a_pass_cancels_tasks_that_have_not_started(work: Work) -> None:
    called: list[int] = []
    all_submitted = threading.Event()

    def items() -> Iterator[int]:
        yield from range(5)
        all_submitted.set()

    def call(number: int) -> int:
        called.append(number)
        assert all_submitted.wait(SECONDS)
        return work(number)

    def results() -> Generator[int, None, None]:
        with WorkAhead(1) as ahead:
            yield from ahead.map(call, items(), 10)

    generator = results()
    assert next(generator) == 0
    assert work.begun.wait(SECONDS)
    generator.close()
    work.go.set()
    join_threads()
    assert called == [0, 1]


@pytest.mark.usefixtures("ctrl_c_raises")
def test_interrupt_as_a_batch_arrives_does_not_lose_the_batch() -> None:
    position = 0

    def batches() -> Iterator[int]:
        nonlocal position
        for batch in (1, 2, 3):
            if batch == 2:
                -CtrlC()  # type: ignore[operator]
            position = batch
            yield batch

    received = 0
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        for batch in PassThreads().follow(batches()):  # type: ignore[type-var]
            received = batch
    assert received == position == 2


def test_generator_collected_in_its_own_thread_does_not_deadlock(work: Work) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself, self.results = self, prefetched(collect)

    collected: list[int] = []

    def collect(number: int) -> None:
        if number == 1:
            work(number)
            collected.append(gc.collect())

    cycle: Any = Cycle()
    next(cycle.results)
    assert work.begun.wait(SECONDS)
    del cycle
    work.go.set()
    join_threads()
    assert collected


class Slow:
    """An object with a property whose computation ends when the test sets `may_end`."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()

    @cached_property
    def value(self) -> object:
        """A new object on each computation."""
        self.begun.set()
        self.may_end.wait()
        return object()


class Instance:
    def __init__(self) -> None:
        self.itself = self

    @cached_property
    def value(self) -> int:
        return 3


def test_instance_has_one_dictionary_if_gc_runs_while_it_is_created() -> None:
    """Python would crash when freeing a second dictionary that the instance does not own."""
    instance = Instance()
    found: list[dict[str, object]] = []
    thresholds = gc.get_threshold()
    gc.disable()
    try:
        garbage = Instance()
        _dies = weakref.ref(garbage, lambda _: found.append(instance.__dict__))
        del garbage
        kept = [
            {number: number} for number in range(1_000)
        ]  # so that the next dictionary needs new memory
        gc.set_threshold(1)
        gc.enable()
        value = instance.value
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    assert len(found) == 1
    assert found[0] is instance.__dict__
    assert found[0] == {"itself": instance, "value": value}
    assert len(kept) == 1_000


def test_forked_child_does_not_wait_for_its_parents_threads() -> None:
    slow, quick = Slow(), Slow()
    quick.may_end.set()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: slow.value)
        slow.begun.wait()
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if quick.value is quick.value else 1)
            finally:
                os._exit(1)
        slow.may_end.set()
    assert os.waitpid(child, 0)[1] == 0
