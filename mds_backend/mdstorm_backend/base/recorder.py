"""Record what a consumer of batches waits for, and what threads do for it meanwhile.

Every thread counts for itself, so that nobody waits for a lock; sums are made when somebody asks.
A piece of work that a thread does ahead of use keeps for its consumer how long it was busy with
what. Where the consumer has to wait for it, the seconds of the wait are divided in that proportion.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from enum import IntEnum
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")

#: Seconds by `Cause`.
Shares: TypeAlias = list[float]
#: What a thread leaves for whoever waits: the result, and what it took.
Made: TypeAlias = tuple[_Out, Shares]


class Cause(IntEnum):
    """What a thread may be busy with, and a consumer wait for."""

    DOWNLOADS = 0
    CACHE = 1
    DECODING = 2
    TRANSFORMS = 3
    #: Anything else.
    BATCHING = 4


#: Names of the seconds of threads, by cause; of the rest there are none.
_BUSY = ("download_seconds", "cache_seconds", "decode_seconds", "transform_seconds")
#: Names of the seconds of the consumer.
_WAITED = (
    "waited_for_downloads",
    "waited_for_cache",
    "waited_for_decoding",
    "waited_for_transforms",
)
#: What threads count, beside those seconds.
COUNTED = (
    "downloading_seconds",
    "downloads",
    "downloaded_bytes",
    "downloaded_again",
    "cache_hits",
    "evictions",
    "shards",
    "shard_bytes",
    "results",
    "results_ready",
)
_ZERO: dict[str, float] = dict.fromkeys((*_BUSY, *COUNTED), 0)


class _Task:
    """What a thread is doing for a recorder."""

    __slots__ = ("busy", "counts", "recorder", "shares")

    def __init__(self, recorder: Recorder, shares: Shares) -> None:
        self.recorder = recorder
        self.shares = shares
        #: Seconds that are accounted for.
        self.busy = 0.0
        self.counts = recorder._counts_of_thread()


class _Here(threading.local):
    task: _Task | None = None


_here = _Here()


def count(name: str, number: float = 1) -> None:
    """Add to a count of the recorder for which this thread works, if there is one."""
    task = _here.task
    if task is not None:
        task.counts[name] += number


def current_recorder() -> Recorder | None:
    """Return the recorder for which this thread works."""
    return None if _here.task is None else _here.task.recorder


class work:  # noqa: N801  # reads as a statement
    """A ``with`` block in which this thread is busy with something.

    Blocks may be nested: each counts only its own seconds.
    """

    __slots__ = ("_before", "_cause", "_start", "_task")

    def __init__(self, cause: Cause) -> None:
        self._cause = cause

    def __enter__(self) -> None:
        task = self._task = _here.task
        if task is None:
            return
        self._before = task.busy
        self._start = task.recorder.clock()
        if self._cause == Cause.DOWNLOADS:
            task.recorder._begin_download(self._start)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task = self._task
        if task is None:
            return
        now = task.recorder.clock()
        own = now - self._start - (task.busy - self._before)
        task.busy += own
        task.shares[self._cause] += own
        task.counts[_BUSY[self._cause]] += own
        if self._cause == Cause.DOWNLOADS:
            task.counts["downloading_seconds"] += task.recorder._end_download(now)


class Recorder:
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
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, since: float | None = None
    ) -> None:
        self.clock = clock
        self.is_over = False
        self._batches = self._rows = 0
        self._waited = self._trained = self._startup = 0.0
        #: When the consumer asked for a batch, or when it got the last one.
        self._since = clock() if since is None else since
        #: What the consumer has waited for; the rest of its waiting is batching.
        self._shares: Shares = [0.0] * len(Cause)
        self._by_thread: dict[int, dict[str, float]] = {}
        #: Downloads that are under way, and since when there are any.
        self._downloads, self._downloading_since = 0, 0.0
        self._lock = threading.Lock()

    @property
    def consumer(self) -> str:
        """Who takes the batches."""
        return "training"

    def __reduce__(self) -> tuple[Any, ...]:
        return _no_recorder, ()

    # The consumer

    def deliver(self, rows: int, batches: int = 1) -> None:
        """Note that the consumer gets what it has asked for."""
        now = self.clock()
        if self._batches:
            self._waited += now - self._since
        else:
            self._startup += now - self._since
            self._shares = [0.0] * len(Cause)
        self._since = now
        self._batches += batches
        self._rows += rows

    def ask(self) -> None:
        """Note that the consumer asks for more."""
        now = self.clock()
        if self._batches:
            self._trained += now - self._since
        self._since = now

    def end(self, *, is_waiting: bool) -> None:
        """Note that the iteration is over, while the consumer waits for more or does not."""
        if is_waiting and not self.is_over:
            if self._batches:
                self._waited += self.clock() - self._since
            else:
                self._startup += self.clock() - self._since
        self.is_over = True

    def wait(self, seconds: float, shares: Shares) -> None:
        """Divide a wait among the causes in proportion to what the awaited result took."""
        task = _here.task
        is_task = task is not None and task.recorder is self
        mine = task.shares if is_task and task is not None else self._shares
        total = sum(shares)
        if total > 0:
            for cause, share in enumerate(shares):
                mine[cause] += seconds * share / total
        if is_task and task is not None:
            task.busy += seconds

    @contextmanager
    def here(self) -> Iterator[None]:
        """Let the consumer's own thread count for this recorder within a block."""
        outer = _here.task
        _here.task = _Task(self, self._shares)
        try:
            yield
        finally:
            _here.task = outer

    def consumed(self, items: Iterable[_Out]) -> Iterator[_Out]:
        """Yield items, in whose making this thread works for the recorder."""
        iterator = iter(items)
        while True:
            with self.here():
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def called(
        self, function: Callable[[_In], _Out], cause: Cause | None = None
    ) -> Callable[[_In], _Out]:
        """Return a function for the consumer's thread, which counts as `cause`, if any."""

        def counted(value: _In) -> _Out:
            with self.here(), nullcontext() if cause is None else work(cause):
                return function(value)

        return counted

    # Threads that work ahead

    def task(self, function: Callable[[_In], _Out]) -> Callable[[_In], Made[_Out]]:
        """Return what a thread is to call: it gives what the function does, for `result`."""

        def counted(item: _In) -> Made[_Out]:
            outer, task = _here.task, _Task(self, [0.0] * len(Cause))
            _here.task = task
            start = self.clock()
            try:
                result = function(item)
            finally:
                _here.task = outer
            task.shares[Cause.BATCHING] += max(self.clock() - start - task.busy, 0.0)
            return result, task.shares

        return counted

    def result(self, future: Future[Made[_Out]]) -> _Out:
        """Return the result of a task, waited for if need be."""
        if future.done():
            return future.result()[0]
        start = self.clock()
        result, shares = future.result()
        self.wait(self.clock() - start, shares)
        return result

    def count(self, name: str, number: float = 1) -> None:
        """Add to a count, whatever this thread works for."""
        self._counts_of_thread()[name] += number

    def _counts_of_thread(self) -> dict[str, float]:
        number = threading.get_ident()
        return self._by_thread.get(number) or self._by_thread.setdefault(number, dict(_ZERO))

    def _begin_download(self, now: float) -> None:
        with self._lock:  # twice a file, of which the network takes far longer
            if not self._downloads:
                self._downloading_since = now
            self._downloads += 1

    def _end_download(self, now: float) -> float:
        """Return the seconds since there was no download, once there is none again."""
        with self._lock:
            self._downloads -= 1
            return 0.0 if self._downloads else now - self._downloading_since

    # Other processes

    def add(self, totals: Mapping[str, float]) -> None:
        """Add what a recorder in a worker process has counted."""
        counts = self._counts_of_thread()
        for name, number in totals.items():
            if name in counts:
                counts[name] += number

    def totals(self) -> dict[str, float]:
        """Return all numbers so far, by the names of the fields of `Statistics`."""
        totals: dict[str, float] = {
            "passes": 1,
            "batches": self._batches,
            "rows": self._rows,
            "startup_seconds": self._startup,
            "waited_seconds": self._waited,
            "training_seconds": self._trained,
            **_ZERO,
        }
        shares = self._shares if self._batches else [0.0] * len(Cause)
        for name, seconds in zip(_WAITED, shares, strict=False):
            totals[name] = seconds
        totals["waited_for_batching"] = max(self._waited - sum(shares[: len(_WAITED)]), 0.0)
        for counts in list(self._by_thread.values()):
            for name, number in counts.items():
                totals[name] += number
        return totals


def shares_of(totals: Mapping[str, float]) -> Shares:
    """Return what a consumer has waited for."""
    return [totals.get(name, 0.0) for name in (*_WAITED, "waited_for_batching")]


def _no_recorder() -> None:
    """Return what a recorder is in another process."""
