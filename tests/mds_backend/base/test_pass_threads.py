"""Generators with threads of their own: closed by chance, and closed on purpose."""

import gc
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from mdstorm_backend.base.threads import PassThreads, Prefetcher

SECONDS = 30


class Work:
    """The second item holds up its thread until `go` is set, and is told of by `begun`."""

    def __init__(self) -> None:
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, number: int) -> int:
        if number == 1:
            self.begun.set()
            assert self.go.wait(SECONDS)
            self.ended.set()
        return number

    def results(self) -> Generator[int, None, None]:
        """Generate results, suspended after the first one with the second one under way."""
        results = self._results()
        assert next(results) == 0
        assert self.begun.wait(SECONDS)
        return results

    def _results(self) -> Generator[int, None, None]:
        with Prefetcher(1, 2) as prefetcher:
            yield from prefetcher.map(self, range(10))


@pytest.fixture
def work() -> Iterator[Work]:
    """Work, which does not outlive the test."""
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
    """Take two results in a generator around theirs."""
    with threads.closing(work.results()) as results:
        yield 0
        yield next(results)


def test_a_generator_that_is_let_go_of_does_not_wait_for_threads_but_who_owns_it(
    work: Work,
) -> None:
    threads = PassThreads()
    results = outer(work, threads)
    next(results)
    del results  # whoever does this may hold what the thread waits for
    assert not work.ended.is_set()
    threading.Timer(0.01, work.go.set).start()
    threads.wait()
    assert work.ended.is_set()
    assert not own_threads()


def test_threads_of_a_pass_have_ended_when_the_next_one_begins(work: Work) -> None:
    threads, second = PassThreads(), Work()
    results = outer(work, threads)
    next(results)
    del results
    threading.Timer(0.01, work.go.set).start()
    second.go.set()
    assert list(outer(second, threads)) == [0, 1]
    assert work.ended.is_set()


def test_the_garbage_may_be_collected_by_a_thread_of_its_own(work: Work) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself, self.results = self, collecting()

    collected: list[int] = []

    def collect(number: int) -> None:
        if number:
            work.begun.set()
            assert work.go.wait(SECONDS)
            collected.append(gc.collect())

    def collecting() -> Generator[None, None, None]:
        with Prefetcher(1, 2) as prefetcher:
            yield from prefetcher.map(collect, range(2))

    cycle: Any = Cycle()
    next(cycle.results)
    assert work.begun.wait(SECONDS)
    del cycle
    work.go.set()
    join_threads()
    assert collected
