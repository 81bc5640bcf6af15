"""Threads that work ahead of a generator's consumer, and how they end.

A suspended generator is closed when its last reference goes away. The garbage collector may close
it in any thread and at any point: in one of the generator's own threads, or while holding a lock
that one of them is waiting for, such as the locks that `threading` uses to start and end threads.
Therefore closing a generator does not wait for its threads, those of a `WorkAhead`. They finish
their current work, and the generator's owner waits for them later, with `PassThreads`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count, islice
from typing import Any, TypeVar
from weakref import WeakSet

from mdstorm_backend.base.forks import make_forks_safe
from mdstorm_backend.base.iteration import Iteration
from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.base.pools import Threads
from mdstorm_backend.base.recorder import Recorder, of_this_task, working_for

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_priorities = count()


def next_priority() -> int:
    """Return a priority lower than all earlier ones; a greater number means a lower priority."""
    return next(_priorities)


class _Here(threading.local):
    #: The priority of this thread's work, and the threads to which it may hand off work.
    priority: int | None = None
    others: Threads | None = None
    #: If set, a list that receives the threads of generators that this thread closes.
    closed: list[WorkAhead] | None = None


_here = _Here()


def current_priority() -> int:
    """Return the priority of this thread's work, a smaller number than that of any later work."""
    return next_priority() if _here.priority is None else _here.priority


def hand_off(function: Callable[[], object]) -> bool:
    """Call `function` in another thread, as part of this thread's work.

    Returns
    -------
    bool
        False if this is not a thread of a `WorkAhead`, which would wait for the other thread. In
        that case `function` is not called.
    """
    others = _here.others
    if others is not None:
        others.submit(_called, others, current_priority(), of_this_task(function))
    return others is not None


def _called(
    others: Threads | None, priority: int, function: Callable[..., _Out], *args: Any
) -> _Out:
    _here.others, _here.priority = others, priority
    return function(*args)


_Item = TypeVar("_Item")
_Generator = TypeVar("_Generator", bound=Generator[object, None, None])


class PassThreads:
    """The threads of a loader's passes, so that the loader can wait for them."""

    def __init__(self) -> None:
        #: The threads of closed passes.
        self._closed: list[WorkAhead] = []
        self._running: WeakSet[Iteration[Any]] = WeakSet()

    def __reduce__(self) -> tuple[type[PassThreads], tuple[()]]:
        return PassThreads, ()  # a copy has its own passes

    def follow(self, generator: Generator[_Item, None, None]) -> Iteration[_Item]:
        """Return an iterator over a generator's batches; `end` closes it."""
        iteration = Iteration(generator)
        self._running.add(iteration)
        return iteration

    def end(self) -> None:
        """Close the running iterations, and wait for their threads."""
        for iteration in list(self._running):
            iteration.close()
        self.wait()

    @contextmanager
    def closing(self, generator: _Generator) -> Iterator[_Generator]:
        """Close `generator`, one stage of a pass, at the end of a block in an outer generator.

        Exiting the block waits for the generator's threads, unless the outer generator is itself
        being closed: in that case `wait` does. Threads of earlier passes are waited for first.
        """
        self.wait()
        is_closed = False
        try:
            yield generator
        except GeneratorExit:
            is_closed = True
            raise
        finally:
            outer, _here.closed = _here.closed, self._closed
            try:
                generator.close()
            finally:
                _here.closed = outer
            if not is_closed:
                self.wait()

    def wait(self) -> None:
        """Wait for the threads of closed passes."""
        while self._closed:
            self._closed.pop().wait()


class WorkAhead(OwnContext):
    """Threads that work ahead of their consumer, until the end of the ``with`` block.

    Work that has not begun by then is cancelled. The threads are waited for, unless the block is in
    a generator that is being closed; see the module's docstring.

    Parameters
    ----------
    threads : int
        Number of threads. With 0, the caller's thread does the work when it asks for it.
    recorder : Recorder, optional
        Records the work and the consumer's waits.
    name : str
        The beginning of the threads' names.
    """

    def __init__(
        self, threads: int, recorder: Recorder | None = None, *, name: str = "mdstorm-prefetch"
    ) -> None:
        self._recorder = recorder
        #: Returns the result of a call that was begun, or raises its error.
        self.result: Callable[[Any], Any] = Future.result if recorder is None else recorder.result
        #: Whether the last result was ready when the consumer requested it.
        self._is_ahead = False
        #: One element per call in progress: a deque can be modified safely without a lock.
        self._under_way: deque[None] = deque()
        self._pool: Threads | None = None
        #: Threads to which calls hand off work: others, because the calls wait for that work.
        self._others: Threads | None = None
        if threads:
            make_forks_safe()
            self._pool, self._others = (Threads(threads, name) for _ in range(2))

    def begin(
        self, function: Callable[[_In], _Out], item: _In, priority: int | None = None
    ) -> _Out | Future[Any]:
        """Begin a call in a thread, for `result`; without threads, return its result.

        In both cases `result` raises the call's error. `priority` is the call's priority from
        `next_priority`, by default one below those of all earlier calls.
        """
        if self._pool is None:
            try:
                return self._call_here(function, item)
            except Exception as error:
                return _failed(error)
        call: Callable[[_In], Any] = function
        if self._recorder is not None:
            call = self._recorder.task(function)
        priority = next_priority() if priority is None else priority
        return self._pool.submit(_called, self._others, priority, self._counted, call, item)

    def _call_here(self, function: Callable[[_In], _Out], item: _In) -> _Out:
        with working_for(self._recorder):
            return function(item)

    def _counted(self, call: Callable[[_In], _Out], item: _In) -> _Out:
        self._under_way.append(None)
        try:
            return call(item)
        finally:
            self._under_way.pop()

    def map(
        self,
        function: Callable[[_In], _Out],
        items: Iterable[_In],
        depth: int,
        *,
        first_here: bool = False,
    ) -> Iterator[_Out]:
        """Apply `function` to each item and yield the results in order.

        At most `depth` results are in progress or ready at a time. `items` is advanced in the
        consumer's thread. Errors, including those of `items` itself, are raised in order, after the
        preceding results. With `first_here`, the first item is processed in the consumer's thread
        before the second one is requested.
        """
        items = iter(items)
        for item in islice(items, None if self._pool is None else int(first_here)):
            yield self._call_here(function, item)
        pending: deque[Any] = deque()
        begun = 0
        for call in self._begun(function, items):
            pending.append(call)
            begun += 1
            # Results are yielded before the full depth is begun: beginning two calls for each
            # result reaches the full depth soon enough.
            if len(pending) >= depth or (begun >= 2 and pending[0].done()):
                begun = 0
                yield self._next(pending)
        while pending:
            yield self._next(pending)

    def _begun(self, function: Callable[[_In], _Out], items: Iterator[_In]) -> Iterator[Any]:
        try:
            for item in items:
                yield self.begin(function, item)
        except Exception as error:
            yield _failed(error)

    def _next(self, pending: deque[Future[Any]]) -> Any:
        self._is_ahead = pending[0].done()
        return self.result(pending.popleft())

    def share_of(self, threads: int) -> int:
        """Return how many of `threads` one call may use, dividing them among the current calls.

        Each call gets one thread as long as results are ready when the consumer requests them,
        because more threads would take more processor time without saving any waiting time.
        """
        return 1 if self._is_ahead else max(threads // max(len(self._under_way), 1), 1)

    def wait(self) -> None:
        """Wait for the threads, once the block has ended."""
        self._shut_down(wait=True)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        is_closed = kind is GeneratorExit
        self._shut_down(wait=not is_closed)
        if is_closed and _here.closed is not None:
            _here.closed.append(self)

    def _shut_down(self, *, wait: bool) -> None:
        if self._pool is not None and self._others is not None:
            self._pool.shutdown(wait, cancel_futures=True)
            self._others.shutdown(wait)  # nothing is cancelled: calls may wait for it


def _failed(error: Exception) -> Future[Any]:
    failed: Future[Any] = Future()
    failed.set_exception(error)
    return failed
