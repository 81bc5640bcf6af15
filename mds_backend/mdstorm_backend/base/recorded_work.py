"""What a thread is busy with, and for which recorder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import IntEnum
from types import TracebackType
from typing import Protocol, TypeAlias

#: Seconds by `Cause`.
Shares: TypeAlias = list[float]


class Cause(IntEnum):
    """What a thread may be busy with, and a consumer wait for."""

    DOWNLOADS = 0
    CACHE = 1
    DECODING = 2
    TRANSFORMS = 3
    #: Anything else.
    BATCHING = 4


_DOWNLOADS, REST, CAUSES = int(Cause.DOWNLOADS), int(Cause.BATCHING), len(Cause)
#: Names of the seconds of threads, by cause; of the rest there are none.
BUSY = ("download_seconds", "cache_seconds", "decode_seconds", "transform_seconds")
#: Names of the seconds of the consumer, by cause; that of the rest is ``waited_for_batching``.
WAITED = (
    "waited_for_downloads",
    "waited_for_cache",
    "waited_for_decoding",
    "waited_for_transforms",
)
#: Names of its seconds before the first batch.
STARTED = tuple(name.replace("waited", "startup") for name in WAITED)
#: What threads count, beside those seconds.
_COUNTED = (
    "downloading_seconds",
    "downloads",
    "downloaded_bytes",
    "downloaded_again",
    "cache_hits",
    "evictions",
    "shards",
    "shard_bytes",
)
ZERO: dict[str, float] = dict.fromkeys((*BUSY, *_COUNTED), 0)


class Task:
    """What a thread is doing for a recorder."""

    __slots__ = ("busy", "recorder", "shares")

    def __init__(self, recorder: Counter, shares: Shares) -> None:
        self.recorder = recorder
        self.shares = shares
        #: Seconds that are accounted for.
        self.busy = 0.0


class Watcher(Protocol):
    """Is told what happens in a pass that somebody may be waiting for; it never raises."""

    def downloaded(self, size: int) -> None:
        """Note a file of `size` bytes, in the thread that has downloaded it."""

    def started(self) -> None:
        """Note that the first batch is there."""

    def ended(self) -> None:
        """Note that the pass is over."""


class Counter:
    """Adds up what threads do, each of which has numbers of its own.

    Parameters
    ----------
    clock : callable
        Returns seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        #: Shows what is downloaded, if somebody looks.
        self.watcher: Watcher | None = None
        self._by_thread: dict[int, dict[str, float]] = {}
        #: Downloads that are under way, and since when there are any.
        self._downloads, self._downloading_since = 0, 0.0
        self._lock = threading.Lock()

    def counts_of_thread(self) -> dict[str, float]:
        """Return the numbers of this thread, to be added to."""
        number = threading.get_ident()
        return self._by_thread.get(number) or self._by_thread.setdefault(number, dict(ZERO))

    def begin_download(self, now: float) -> None:
        """Note that one more download is under way."""
        with self._lock:  # twice a file, of which the network takes far longer
            if not self._downloads:
                self._downloading_since = now
            self._downloads += 1

    def end_download(self, now: float) -> float:
        """Return the seconds since there was no download, once there is none again."""
        with self._lock:
            self._downloads -= 1
            return 0.0 if self._downloads else now - self._downloading_since


class _Here(threading.local):
    task: Task | None = None


here = _Here()


def count(name: str, number: float = 1) -> None:
    """Add to a count of the recorder for which this thread works, if there is one."""
    task = here.task
    if task is not None:
        task.recorder.counts_of_thread()[name] += number


def count_download(size: int) -> None:
    """Count a file of `size` bytes that this thread has brought here."""
    task = here.task
    if task is None:
        return
    counts = task.recorder.counts_of_thread()
    counts["downloads"] += 1
    counts["downloaded_bytes"] += size
    watcher = task.recorder.watcher
    if watcher is not None:
        watcher.downloaded(size)


class work:  # noqa: N801  # reads as a statement
    """A ``with`` block in which this thread is busy with something.

    Blocks may be nested: each counts only its own seconds.
    """

    __slots__ = ("_before", "_cause", "_start", "_task")

    def __init__(self, cause: int) -> None:
        self._cause = cause

    def __enter__(self) -> None:
        task = self._task = here.task
        if task is not None:
            self._before = task.busy
            self._start = task.recorder.clock()
            if self._cause == _DOWNLOADS:
                task.recorder.begin_download(self._start)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, cause = self._task, self._cause
        if task is None:
            return
        recorder = task.recorder
        now = recorder.clock()
        own = now - self._start - (task.busy - self._before)
        task.busy += own
        task.shares[cause] += own
        counts = recorder.counts_of_thread()
        counts[BUSY[cause]] += own
        if cause == _DOWNLOADS:
            counts["downloading_seconds"] += recorder.end_download(now)
