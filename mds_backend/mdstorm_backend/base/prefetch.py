"""Prefetching: threads work ahead, results arrive in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

import pyarrow as pa

from mdstorm_backend.base.recorder import Recorder, working_for
from mdstorm_backend.base.threads import OrderedPool, PoolContext

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Prefetcher(PoolContext):
    """A pool of threads that stays at most `depth` results ahead of its consumer.

    The threads end with the ``with`` block; see `mdstorm_backend.base.threads`.

    Parameters
    ----------
    workers : int
        Number of threads. With 0, results are computed in the caller's thread, on demand.
    depth : int
        Results that may be in progress or ready at a time.
    recorder : Recorder, optional
        Records the work of the threads, and the waits of the consumer.
    """

    def __init__(
        self,
        workers: int,
        depth: int,
        recorder: Recorder | None = None,
    ) -> None:
        self._depth = max(depth, 1)
        self._recorder = recorder
        #: Whether the consumer found its last result ready.
        self._is_ahead = False
        #: One element per call in progress: a deque changes safely without a lock.
        self._under_way: deque[None] = deque()
        if workers:
            _make_forks_safe()
        self._pool = (
            OrderedPool(workers, thread_name_prefix="mdstorm-prefetch") if workers else None
        )

    def map(
        self, function: Callable[[_In], _Out], items: Iterable[_In], *, first_here: bool = False
    ) -> Iterator[_Out]:
        """Apply `function` to each item and yield the results in order.

        `items` is advanced in the consumer's thread. Errors, including those of `items` itself, are
        raised in order, after the preceding results. With `first_here`, the first item is processed
        in the consumer's thread before the second one is requested.
        """
        items = iter(items)
        for item in islice(items, None if self._pool is None else int(first_here)):
            with working_for(self._recorder):
                result = function(item)
            yield result
        if self._pool is None:
            return
        call: Callable[[_In], Any] = function
        take: Callable[[Future[Any]], _Out] = Future.result
        if self._recorder is not None:
            call, take = self._recorder.task(function), self._recorder.result
        call = self._counted(call)
        pending: deque[Future[Any]] = deque()
        failure: list[Exception] = []
        submitted = 0
        for item in _until_failure(items, failure):
            pending.append(self._pool.submit(call, item))
            submitted += 1
            # A finished result is not held back until the full depth is submitted: submitting two
            # items for each result reaches the full depth soon enough.
            if len(pending) >= self._depth or (submitted >= 2 and pending[0].done()):
                submitted = 0
                self._count(pending)
                yield take(pending.popleft())
        while pending:
            self._count(pending)
            yield take(pending.popleft())
        if failure:
            raise failure[0]

    def _count(self, pending: deque[Future[Any]]) -> None:
        self._is_ahead = pending[0].done()
        if self._recorder is not None:
            self._recorder.results += 1
            self._recorder.results_ready += sum(map(Future.done, pending))

    def share_of(self, threads: int) -> int:
        """Return how many of `threads` one call may use, dividing them among the current calls.

        It is one while results are ready when the consumer requests them. More threads would take
        more processor time and save no wait.
        """
        return 1 if self._is_ahead else max(threads // max(len(self._under_way), 1), 1)

    def _counted(self, call: Callable[[_In], Any]) -> Callable[[_In], Any]:
        under_way = self._under_way

        def counted(item: _In) -> Any:
            under_way.append(None)
            try:
                return call(item)
            finally:
                under_way.pop()

        return counted


def _until_failure(items: Iterable[_In], failure: list[Exception]) -> Iterator[_In]:
    """Yield items until `items` raises an error, which is appended to `failure`."""
    try:
        yield from items
    except Exception as error:
        failure.append(error)


@lru_cache(maxsize=1)
def _make_forks_safe() -> None:
    """Make forks wait until Arrow is initialised.

    When Arrow first converts Python objects, it imports pandas under a lock, in whichever thread. A
    process forked in the meantime would wait forever for a thread that it does not have.
    """
    os.register_at_fork(before=set_up_arrow)


def set_up_arrow() -> None:
    """Initialise Arrow, or wait for the thread that does; it imports pandas if installed."""
    pa.array([0])
