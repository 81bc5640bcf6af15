"""End the threads that work for a generator.

A suspended generator is closed when its last reference goes away. The garbage collector may do so
in any thread and at any point: in one of the generator's own threads, or while a lock is held that
one of them waits for, such as those with which `threading` starts and ends threads. So closing a
generator does not wait for its threads: they finish what they are doing, and the owner of the
generator waits for them later, with `PassThreads`.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from typing_extensions import Self


class OwnContext:
    """A context manager that ``with … as`` gets itself, and that calls `_mdstorm_leave` at the end.

    Subclasses are what users make subclasses of: the method's name leaves all others to them.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._mdstorm_leave(kind)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        """End what is under way; `kind` is that of the error that ends the block, if one does."""
        raise NotImplementedError(f"{type(self).__name__} has to define _mdstorm_leave")


_Generator = TypeVar("_Generator", bound=Generator[object, None, None])


class _Closing(threading.local):
    """Where this thread records the pools of generators that it closes; None for nowhere."""

    pools: list[ThreadPoolExecutor] | None = None


_closing = _Closing()


def end_pool(pool: ThreadPoolExecutor, kind: type[BaseException] | None) -> None:
    """End the threads of a pool whose generator ends.

    Parameters
    ----------
    pool : ThreadPoolExecutor
        The pool. Work that has not started is cancelled.
    kind : type of exception or None
        What ends the generator. Unless the generator is closed, its threads are waited for.
    """
    is_closed = kind is not None and issubclass(kind, GeneratorExit)
    pool.shutdown(wait=not is_closed, cancel_futures=True)
    if is_closed and _closing.pools is not None:
        _closing.pools.append(pool)


class PassThreads:
    """The threads of a loader's passes that have not been waited for."""

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
        """Close `generator`, part of a pass, at the end of a block in another generator.

        Its threads are waited for at once, or by `wait` if the outer generator is itself closed.
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
        """Wait for the threads of closed passes."""
        while self._pools:
            self._pools.pop().shutdown()


class PoolContext(OwnContext):
    """A context manager whose pool of threads, if it has one, ends with the ``with`` block."""

    _pool: ThreadPoolExecutor | None

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        if self._pool:
            end_pool(self._pool, kind)
