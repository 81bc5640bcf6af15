"""Record why a consumer waits for batches, and the work of its threads.

Everything that takes time runs in a span, ``with work(Cause.DOWNLOADS)``, in any thread. A task
that a thread runs ahead of time returns its spans with its result. If the consumer waits for the
result, the waiting time is divided in proportion to these spans.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from enum import IntEnum
from functools import partial
from typing import Any, TypeAlias, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Cause(IntEnum):
    """The kinds of work that keep a thread busy, and that a consumer waits for."""

    DOWNLOADS = 0
    CACHE = 1
    DECODING = 2
    TRANSFORMS = 3
    #: All other work.
    BATCHING = 4


_REST, _CAUSES = int(Cause.BATCHING), len(Cause)
#: Seconds by `Cause`.
Spans: TypeAlias = list[float]
#: The result of a task, and the spans of its work.
Made: TypeAlias = tuple[_Out, Spans]

#: `Statistics` fields for the seconds that the consumer waits after the first batch, by cause.
WAITED = tuple(f"waited_for_{cause.name.lower()}" for cause in Cause)
#: `Statistics` fields for the seconds that threads are busy, by cause; `BATCHING` has none.
BUSY = ("download_seconds", "cache_seconds", "decode_seconds", "transform_seconds")
#: `Statistics` fields for the other numbers that threads count.
_COUNTED = (
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
    "skipped",
)
_ZERO: dict[str, float] = dict.fromkeys((*BUSY, *_COUNTED), 0)
#: Waits shorter than this, in seconds, are not counted: the result is considered ready.
_SHORTEST_WAIT = 20e-6
_END: Any = object()


class _Here(threading.local):
    #: The recorder of this thread's work, and the spans of the task that the thread runs.
    task: tuple[Recorder, Spans] | None = None


here = _Here()


class Recorder:
    """Records one iteration over batches; pickled as None, because each process has its own.

    Parameters
    ----------
    clock : callable
        Returns seconds.
    since : float, optional
        When the consumer requested the first batch; by default now.

    Attributes
    ----------
    is_over : bool
        Whether the iteration has ended.
    since : float
        When the consumer last requested or received a batch.
    batches, rows : int
        Batches and rows that the user took.
    startup, trained : float
        Seconds that the consumer waited for the first batch, and seconds between receiving a batch
        and requesting the next one.
    results, results_ready : int
        Results taken from threads, and the sum of the results that were ready each time.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, since: float | None = None
    ) -> None:
        self.clock = clock
        self.is_over = False
        self.since = clock() if since is None else since
        self.batches = self.rows = 0
        self.startup = self.trained = 0.0
        self.results = self.results_ready = 0
        #: When the user took the first batch.
        self._started = 0.0
        #: The consumer's waits since the first batch, by cause.
        self._spans = _no_spans()
        #: One set of counts per thread, so that no thread waits for a lock.
        self._counts: dict[int, dict[str, float]] = {}
        #: The number of downloads in progress, and the time when the first of them started.
        self._downloads, self._downloading_since = 0, 0.0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()

    # Methods for the consumer's thread

    @property
    def consumer(self) -> str:
        """What the consumer of batches is called in messages."""
        return "training"

    @property
    def waited(self) -> float:
        """Seconds that the consumer waited for batches after the first one."""
        return self.since - self._started - self.trained if self.batches else 0.0

    def record_batches(self, rows: int, batches: int = 1) -> None:
        """Record that the consumer has received the batches it requested."""
        now = self.clock()
        if not self.batches:  # waits so far belong to the startup
            self.startup, self._started = now - self.since, now
            self._spans = _no_spans()
        self.since = now
        self.batches += batches
        self.rows += rows

    def record_request(self) -> None:
        """Record that the consumer requests the next batch."""
        now = self.clock()
        if self.batches:
            self.trained += now - self.since
            self.since = now
        else:
            self.since = now - self.startup

    def begun(self) -> None:
        """Count the time so far as startup, but not the time from now until the first request."""
        self.startup = self.clock() - self.since

    def end(self, *, is_waiting: bool) -> None:
        """Record the end of the iteration; `is_waiting` is True if a requested batch is pending."""
        if is_waiting and not self.is_over:
            now = self.clock()
            if not self.batches:
                self.startup = now - self.since
            self.since = now
        self.is_over = True

    def wait(self, seconds: float, spans: Spans) -> None:
        """Divide a wait among causes in proportion to the spans of the awaited result."""
        task, total = here.task, sum(spans)
        mine = task[1] if task is not None and task[0] is self else self._spans
        if total <= 0:
            mine[_REST] += seconds
            return
        for cause, span in enumerate(spans):
            mine[cause] += seconds * span / total

    def consumed(self, items: Iterable[_Out]) -> Iterator[_Out]:
        """Yield items, and record the work that this thread does to produce them."""
        following: Callable[[Any], Any] = self.called(partial(next, iter(items)))
        while (item := following(_END)) is not _END:
            yield item

    def called(
        self, function: Callable[[_In], _Out], cause: Cause | None = None
    ) -> Callable[[_In], _Out]:
        """Wrap a function to record its work as the consumer's, under `cause` if given."""

        def counted(value: _In) -> _Out:
            with working_for(self):
                if cause is None:
                    return function(value)
                with work(cause):
                    return function(value)

        return counted

    # Methods for worker threads

    def task(self, function: Callable[[_In], _Out]) -> Callable[[_In], Made[_Out]]:
        """Wrap a function to return its result with the spans of its work, as `result` expects."""

        def counted(item: _In) -> Made[_Out]:
            spans, start = _no_spans(), self.clock()
            outer, here.task = here.task, (self, spans)
            try:
                result = function(item)
            finally:
                here.task = outer
            spans[_REST] += self.clock() - start - sum(spans)
            return result, spans

        return counted

    def result(self, future: Future[Made[_Out]]) -> _Out:
        """Return the result of a task, and record the wait for it."""
        start = self.clock()
        result, spans = future.result()
        seconds = self.clock() - start
        if seconds > _SHORTEST_WAIT:
            self.wait(seconds, spans)
        return result

    def counts_of_thread(self) -> dict[str, float]:
        """Return this thread's counts, a dict that the caller updates."""
        number = threading.get_ident()
        return self._counts.get(number) or self._counts.setdefault(number, dict(_ZERO))

    def begin_download(self, now: float) -> None:
        """Record that a download starts."""
        with self._lock:  # the lock is taken only twice per file, and briefly
            if not self._downloads:
                self._downloading_since = now
            self._downloads += 1

    def end_download(self, now: float) -> float:
        """Record a download's end; if none is left, return the seconds since the first started."""
        with self._lock:
            self._downloads -= 1
            return 0.0 if self._downloads else now - self._downloading_since

    # Totals

    def add(self, totals: Mapping[str, float]) -> None:
        """Add the totals of a worker process's recorder to this recorder's counts."""
        counts = self.counts_of_thread()
        for name in counts.keys() & totals.keys():
            counts[name] += totals[name]

    def totals(self) -> dict[str, float]:
        """Return all numbers so far, keyed by the fields of `Statistics`."""
        spans = self._spans if self.batches else _no_spans()
        totals: dict[str, float] = {
            "passes": 1,
            "batches": self.batches,
            "rows": self.rows,
            **_ZERO,
            "results": self.results,
            "results_ready": self.results_ready,
            "startup_seconds": self.startup,
            "waited_seconds": self.waited,
            "training_seconds": self.trained,
        }
        totals.update(zip(WAITED, spans, strict=True))
        totals[WAITED[_REST]] = max(self.waited - sum(spans[:_REST]), 0.0)
        for counts in list(self._counts.values()):
            for name, number in counts.items():
                totals[name] += number
        return totals


class working_for:  # noqa: N801  # as `work`
    """Record the work in a ``with`` block as the consumer's own, if there is a recorder."""

    __slots__ = ("_outer", "_recorder")

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder

    def __enter__(self) -> None:
        self._outer = here.task
        if self._recorder is not None:
            here.task = self._recorder, self._recorder._spans

    def __exit__(self, *_: object) -> None:
        here.task = self._outer


class work:  # noqa: N801  # reads as a statement, and is quicker than a generator
    """Record the time of a ``with`` block under a cause, in this thread's recorder.

    The seconds of a nested block count for that block only.
    """

    __slots__ = ("_cause", "_start", "_task")

    def __init__(self, cause: Cause) -> None:
        self._cause = cause

    def __enter__(self) -> None:
        self._task = here.task
        if self._task is not None:
            recorder, spans = self._task
            now = recorder.clock()
            self._start = now - sum(spans)
            if self._cause is Cause.DOWNLOADS:
                recorder.begin_download(now)

    def __exit__(self, *_: object) -> None:
        if self._task is None:
            return
        (recorder, spans), cause = self._task, self._cause
        now, counts = recorder.clock(), recorder.counts_of_thread()
        own = now - sum(spans) - self._start
        spans[cause] += own
        counts[BUSY[cause]] += own
        if cause is Cause.DOWNLOADS:
            counts["downloading_seconds"] += recorder.end_download(now)


def count(name: str, number: float = 1) -> None:
    """Add to a count of this thread's recorder, if there is one."""
    if here.task is not None:
        here.task[0].counts_of_thread()[name] += number


def of_this_task(function: Callable[[], object]) -> Callable[[], None]:
    """Wrap a function for another thread so that its work is counted in this thread's recorder."""
    task = here.task and (here.task[0], _no_spans())

    def called() -> None:
        here.task = task
        function()

    return called


def current_recorder() -> Recorder | None:
    """Return the recorder that records this thread's work, or None."""
    return None if here.task is None else here.task[0]


def _no_spans() -> Spans:
    return [0.0] * _CAUSES
