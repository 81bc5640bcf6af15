"""Record what a consumer of batches waits for, and what threads do for it meanwhile.

Every thread counts for itself, so that nobody waits for a lock; sums are made when somebody asks.
A piece of work that a thread does ahead of use keeps for its consumer how long it was busy with
what. Where the consumer has to wait for it, the seconds of the wait are divided in that proportion.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeAlias, TypeVar

from mdstorm_backend.base.recorded_work import (
    CAUSES,
    REST,
    STARTED,
    WAITED,
    ZERO,
    Cause,
    Counter,
    Shares,
    Task,
    here,
    work,
)

_In = TypeVar("_In")
_Out = TypeVar("_Out")

#: What a thread leaves for whoever waits: the result, and what it took.
Made: TypeAlias = tuple[_Out, Shares]

#: Seconds below which a result was there, and only handed over.
_HANDED_OVER = 20e-6
_END: Any = object()


class Recorder(Counter):
    """Records one iteration over batches. It pickles as None: another process has its own.

    Parameters
    ----------
    clock : callable
        Returns seconds.
    since : float, optional
        When the consumer asked for the first batch; now by default.

    Attributes
    ----------
    is_over : bool
        Whether the iteration has ended.
    since : float
        When the consumer asked or got something last.
    batches, rows : int
        What it has got.
    startup, trained : float
        Seconds that it waited for the first batch, and seconds between a batch and its next asking.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, since: float | None = None
    ) -> None:
        super().__init__(clock)
        self.is_over = False
        self.since = clock() if since is None else since
        self.batches = self.rows = 0
        self.startup = self.trained = 0.0
        #: When the first batch was there.
        self._started = 0.0
        self._results = self._results_ready = 0
        #: What the consumer has waited for; the rest of its waiting is batching.
        self._shares: Shares = [0.0] * CAUSES
        #: The same for the first batch, once that is there.
        self._startup_shares: Shares = [0.0] * CAUSES

    @property
    def consumer(self) -> str:
        """Who takes the batches."""
        return "training"

    @property
    def waited(self) -> float:
        """Seconds that the consumer waited for batches after the first one."""
        return self.since - self._started - self.trained if self.batches else 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        return _no_recorder, ()

    # The consumer

    def deliver(self, rows: int, batches: int = 1) -> None:
        """Note that the consumer gets what it has asked for."""
        now = self.clock()
        if not self.batches:  # what was recorded so far was for the start
            self.startup, self._started = now - self.since, now
            self._startup_shares, self._shares = self._shares, [0.0] * CAUSES
            if self.watcher is not None:
                self.watcher.started()
        self.since = now
        self.batches += batches
        self.rows += rows

    def ask(self) -> None:
        """Note that the consumer asks for more."""
        now = self.clock()
        if self.batches:
            self.trained += now - self.since
        self.since = now

    def end(self, *, is_waiting: bool) -> None:
        """Note that the iteration is over, while the consumer waits for more or does not."""
        if is_waiting and not self.is_over:
            now = self.clock()
            if not self.batches:
                self.startup = now - self.since
            self.since = now
        self.is_over = True
        if self.watcher is not None:
            self.watcher.ended()

    def wait(self, seconds: float, shares: Shares) -> None:
        """Divide a wait among the causes in proportion to what the awaited result took."""
        task = here.task
        is_task = task is not None and task.recorder is self
        mine = task.shares if is_task and task is not None else self._shares
        total = sum(shares)
        if total > 0:
            for cause, share in enumerate(shares):
                mine[cause] += seconds * share / total
        if is_task and task is not None:
            task.busy += seconds

    def consumed(self, items: Iterable[_Out]) -> Iterator[_Out]:
        """Yield items, in whose making this thread works for the recorder."""
        following: Callable[[Any], Any] = self.called(partial(next, iter(items)))
        while (item := following(_END)) is not _END:
            yield item

    def called(
        self, function: Callable[[_In], _Out], cause: Cause | None = None
    ) -> Callable[[_In], _Out]:
        """Return a function for the consumer's thread, which counts as `cause`, if any."""

        def counted(value: _In) -> _Out:
            outer = here.task
            here.task = Task(self, self._shares)
            try:
                if cause is None:
                    return function(value)
                with work(cause):
                    return function(value)
            finally:
                here.task = outer

        return counted

    # Threads that work ahead

    def task(
        self, function: Callable[[_In], _Out], when_done: Callable[[None], object] | None = None
    ) -> Callable[[_In], Made[_Out]]:
        """Return what a thread is to call: it gives what the function does, for `result`."""
        clock = self.clock

        def counted(item: _In) -> Made[_Out]:
            outer, task = here.task, Task(self, [0.0] * CAUSES)
            here.task = task
            start = clock()
            try:
                result = function(item)
            finally:
                here.task = outer
                if when_done is not None:
                    when_done(None)
            shares = task.shares
            shares[REST] = clock() - start - task.busy
            return result, shares

        return counted

    def result(self, future: Future[Made[_Out]]) -> _Out:
        """Return the result of a task, waited for if need be."""
        clock = self.clock
        start = clock()
        result, shares = future.result()
        seconds = clock() - start
        if seconds > _HANDED_OVER:
            self.wait(seconds, shares)
        return result

    # Other processes

    def add(self, totals: Mapping[str, float]) -> None:
        """Add what a recorder in a worker process has counted."""
        counts = self.counts_of_thread()
        for name, number in totals.items():
            if name in counts:
                counts[name] += number
        self._results += int(totals.get("results", 0))
        self._results_ready += int(totals.get("results_ready", 0))

    def totals(self) -> dict[str, float]:
        """Return all numbers so far, by the names of the fields of `Statistics`."""
        totals: dict[str, float] = {
            "passes": 1,
            "batches": self.batches,
            "rows": self.rows,
            "startup_seconds": self.startup,
            "waited_seconds": self.waited,
            "training_seconds": self.trained,
            "results": self._results,
            "results_ready": self._results_ready,
            **ZERO,
        }
        shares = self._shares if self.batches else [0.0] * CAUSES
        totals.update(zip(WAITED, shares, strict=False))
        totals.update(zip(STARTED, self._startup_shares, strict=False))
        totals["waited_for_batching"] = max(self.waited - sum(shares[: len(WAITED)]), 0.0)
        for counts in list(self._by_thread.values()):
            for name, number in counts.items():
                totals[name] += number
        return totals


class Results:
    """Results that threads make ahead of use, for one consumer.

    Parameters
    ----------
    recorder : Recorder
        Counts them.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        #: As long as there are results that are ready.
        self._ready: deque[None] = deque()

    def task(self, function: Callable[[_In], _Out]) -> Callable[[_In], Made[_Out]]:
        """Return what a thread is to call."""
        return self._recorder.task(function, self._ready.append)

    def take(self, future: Future[Made[_Out]]) -> _Out:
        """Return the result of a task, waited for if need be."""
        recorder, ready = self._recorder, self._ready
        recorder._results += 1
        recorder._results_ready += len(ready)
        result = recorder.result(future)
        ready.popleft()
        return result


def current_recorder() -> Recorder | None:
    """Return the recorder for which this thread works."""
    recorder = None if here.task is None else here.task.recorder
    return recorder if isinstance(recorder, Recorder) else None


def shares_of(totals: Mapping[str, float]) -> Shares:
    """Return what a consumer has waited for."""
    return [totals.get(name, 0.0) for name in (*WAITED, "waited_for_batching")]


def _no_recorder() -> None:
    """Return what a recorder is in another process."""
