"""Record how long a consumer waits for batches, and which work it waits for.

Work that a consumer may wait for runs in a span, ``with work(Cause.DOWNLOADS)``, in any thread. A
task that a thread runs ahead of time returns its spans with its result. If the consumer waits for
the result, the waiting time is divided in proportion to these spans.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from enum import IntEnum
from functools import partial
from typing import Any, TypeAlias, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Cause(IntEnum):
    """The kinds of work that a consumer waits for."""

    #: Also waits for room in the cache, and for other processes that download the same shard.
    DOWNLOADS = 0
    #: Also decompression, and gathering the rows of a block.
    DECODING = 1
    TRANSFORMS = 2
    #: All other work.
    BATCHING = 3


#: Seconds by `Cause`.
Spans: TypeAlias = list[float]
#: The result of a task, and the spans of its work.
Made: TypeAlias = tuple[_Out, Spans]

_NO_WORK = [0.0 for _ in Cause]
#: `Statistics` fields for the seconds that the consumer waits, by cause; `BATCHING` has none.
_WAITED = ("waited_for_downloads", "waited_for_decoding", "waited_for_transforms")
#: The numbers that any thread may count.
_COUNTED = ("download_seconds", "downloaded_bytes", "skipped")
_END: Any = object()


class _Here(threading.local):
    #: The recorder of this thread's work, and the spans of the task that the thread runs.
    task: tuple[Recorder, Spans] | None = None


here = _Here()


class Recorder:
    """Records the iterations over a loader in this process. Copies, also pickled ones, start empty.

    Parameters
    ----------
    clock : callable
        Returns seconds.

    Attributes
    ----------
    since : float
        When the consumer last requested or received a batch, or began an iteration.
    batches, rows : int
        Batches and rows that the consumer received.
    waited, trained : float
        Seconds from each request for a batch until it arrives, and from there to the next request.
    spans : list of float
        The work that the consumer waited for.
    before : mapping
        The totals when the latest iteration began.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.since = clock()
        self.batches = self.rows = 0
        self.waited = self.trained = 0.0
        self.spans = [*_NO_WORK]
        #: Counts by name and thread, so that no thread waits for a lock.
        self._counts: dict[tuple[str, int], float] = {}
        self.before = self.totals()

    def __reduce__(self) -> tuple[Any, ...]:
        return Recorder, ()

    # Methods for the consumer's thread

    def begin(self) -> None:
        """Record that an iteration begins with the request for its first batch."""
        self.before = self.totals()
        self.since = self.clock()

    def record_received(self, sizes: Sequence[int] = ()) -> None:
        """Record that batches of the given sizes arrived, or the end, as requested."""
        now = self.clock()
        self.waited += now - self.since
        self.since = now
        self.record_sizes(sizes)

    def record_request(self) -> None:
        """Record that the consumer requests the next batch."""
        now = self.clock()
        self.trained += now - self.since
        self.since = now

    def wait(self, seconds: float, spans: Spans) -> None:
        """Divide a wait among causes in proportion to the spans of the awaited result."""
        mine, total = self._spans_here(), sum(spans) or 1.0
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
        """Wrap a function to record the work in it, under `cause` if given."""

        def recorded(value: _In) -> _Out:
            with working_for(self):
                if cause is None:
                    return function(value)
                with work(cause):
                    return function(value)

        return recorded

    # Methods for any thread

    def record_sizes(self, sizes: Sequence[int]) -> None:
        """Count batches of the given sizes."""
        # A call between reading and writing a sum would let another thread change it.
        batches, rows = len(sizes), sum(sizes)
        self.batches += batches
        self.rows += rows

    def task(self, function: Callable[[_In], _Out]) -> Callable[[_In], Made[_Out]]:
        """Wrap a function to return its result with the spans of its work, as `result` expects."""

        def recorded(item: _In) -> Made[_Out]:
            spans, start = [*_NO_WORK], self.clock()
            with working_for(self, spans):
                result = function(item)
            spans[Cause.BATCHING] += self.clock() - start - sum(spans)
            return result, spans

        return recorded

    def result(self, future: Future[Made[_Out]]) -> _Out:
        """Return the result of a task, and record the wait for it."""
        start = self.clock()
        result, spans = future.result()
        self.wait(self.clock() - start, spans)
        return result

    def count(self, name: str, number: float) -> None:
        """Add to a count."""
        key = name, threading.get_ident()
        self._counts[key] = self._counts.get(key, 0) + number

    def counts(self) -> dict[str, float]:
        """Return the counts of all threads, by name."""
        found: dict[str, float] = dict.fromkeys(_COUNTED, 0)
        for (name, _), number in list(self._counts.items()):
            found[name] += number
        return found

    def totals(self) -> Mapping[str, float]:
        """Return all numbers so far, by the fields of `Statistics`."""
        # TensorFlow's pipeline may have waited longer than the consumer, since it reads ahead.
        whole = max(self.waited, sum(self.spans)) or 1.0
        waited_for = (self.waited * span / whole for span in self.spans[: Cause.BATCHING])
        return {
            "batches": self.batches,
            "rows": self.rows,
            "waited_seconds": self.waited,
            "training_seconds": self.trained,
            **dict(zip(_WAITED, waited_for, strict=True)),
            **self.counts(),
        }

    def _spans_here(self) -> Spans:
        """Return the spans of the task that this thread runs, or else those of the consumer."""
        task = here.task
        return task[1] if task is not None and task[0] is self else self.spans


class working_for:  # noqa: N801  # as `work`
    """Record the work in a ``with`` block, if there is a recorder.

    Parameters
    ----------
    recorder : Recorder or None
        The recorder.
    spans : list of float, optional
        The spans to add to; by default those of this thread's task, or else of the consumer.
    """

    __slots__ = ("_outer", "_task")

    def __init__(self, recorder: Recorder | None, spans: Spans | None = None) -> None:
        self._task: tuple[Recorder, Spans] | None = None
        if recorder is not None:
            self._task = recorder, spans or recorder._spans_here()

    def __enter__(self) -> None:
        self._outer = here.task
        here.task = self._task or self._outer

    def __exit__(self, *_: object) -> None:
        here.task = self._outer


class work:  # noqa: N801  # reads as a statement, and is quicker than a generator
    """Record the time of a ``with`` block under a cause, in this thread's recorder.

    The seconds of a nested block count for that block only.

    Attributes
    ----------
    seconds : float
        The recorded time; 0 without a recorder, and until the block ends.
    """

    __slots__ = ("_cause", "_start", "_task", "seconds")

    def __init__(self, cause: Cause) -> None:
        self._cause, self.seconds = cause, 0.0

    def __enter__(self) -> work:
        self._task = here.task
        if self._task is not None:
            recorder, spans = self._task
            self._start = recorder.clock() - sum(spans)
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            recorder, spans = self._task
            self.seconds = recorder.clock() - sum(spans) - self._start
            spans[self._cause] += self.seconds


def count(name: str, number: float) -> None:
    """Add to a count of this thread's recorder, if there is one."""
    if here.task is not None:
        here.task[0].count(name, number)


def of_this_task(function: Callable[[], object]) -> Callable[[], None]:
    """Wrap a function for another thread so that its work is counted in this thread's recorder."""
    recorder = current_recorder()

    def called() -> None:
        with working_for(recorder, [*_NO_WORK]):
            function()

    return called


def current_recorder() -> Recorder | None:
    """Return the recorder that records this thread's work, or None."""
    return None if here.task is None else here.task[0]
