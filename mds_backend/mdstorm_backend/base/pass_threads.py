"""Ending the threads that work for a generator.

A suspended generator is closed by whoever lets go of it last. That may be the garbage collector, in
any thread and in the middle of anything: in one of the generator's own threads, or while a lock is
held that one of them waits for, such as those that `threading` starts and ends threads with. So a
generator that is closed does not wait for its threads: they end with what they are doing, and who
owns it waits for them when there is time for it, by `PassThreads`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakSet

__all__ = ["PassThreads", "end_pool"]

_Generator = TypeVar("_Generator", bound=Generator[object, None, None])


class _Closing(threading.local):
    """Where this thread notes the pools of generators that it closes; None for nowhere."""

    pools: list[ThreadPoolExecutor] | None = None


_closing = _Closing()


def end_pool(pool: ThreadPoolExecutor, kind: type[BaseException] | None) -> None:
    """End the threads of a pool, which belongs to a generator that comes to its end.

    Parameters
    ----------
    pool : ThreadPoolExecutor
        The pool. What it has not begun is cancelled.
    kind : type of exception or None
        What ends the generator. Unless it is closed its threads are waited for.
    """
    is_closed = kind is not None and issubclass(kind, GeneratorExit)
    pool.shutdown(wait=not is_closed, cancel_futures=True)
    if is_closed and _closing.pools is not None:
        _closing.pools.append(pool)


class PassThreads:
    """The threads of the passes of one loader, as far as they were not waited for."""

    def __init__(self) -> None:
        self._pools: list[ThreadPoolExecutor] = []
        self._running: WeakSet[Generator[Any, None, None]] = WeakSet()

    def __reduce__(self) -> tuple[type[PassThreads], tuple[()]]:
        return PassThreads, ()  # copies have passes of their own

    def follow(self, iteration: _Generator) -> _Generator:
        """Note an iteration, which `end` closes, and return it."""
        self._running.add(iteration)
        return iteration

    def end(self) -> None:
        """Close the iterations that are running, and wait for their threads."""
        for iteration in list(self._running):
            iteration.close()
        self.wait()

    @contextmanager
    def closing(self, generator: _Generator) -> Iterator[_Generator]:
        """Close `generator`, a part of a pass, at the end of the block, which is in another one.

        Its threads are waited for at once, or by `wait` if that other generator is closed itself.
        Those of earlier passes are waited for first.
        """
        self.wait()
        is_closed = False
        try:
            yield generator
        except GeneratorExit:
            is_closed = True
            raise
        finally:
            outer, _closing.pools = _closing.pools, self._pools
            try:
                generator.close()
            finally:
                _closing.pools = outer
            if not is_closed:
                self.wait()

    def wait(self) -> None:
        """Wait for the threads of passes that were closed."""
        while self._pools:
            self._pools.pop().shutdown()
