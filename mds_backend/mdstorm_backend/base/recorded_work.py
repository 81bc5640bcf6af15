"""What a thread is busy with, and for which recorder."""

from __future__ import annotations

import threading
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from mdstorm_backend.base.recorder import Recorder

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

    def __init__(self, recorder: Recorder, shares: Shares) -> None:
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


class _Here(threading.local):
    task: Task | None = None


here = _Here()


def count(name: str, number: float = 1) -> None:
    """Add to a count of the recorder for which this thread works, if there is one."""
    task = here.task
    if task is not None:
        task.recorder._counts_of_thread()[name] += number


def current_recorder() -> Recorder | None:
    """Return the recorder for which this thread works."""
    return None if here.task is None else here.task.recorder


def count_download(size: int) -> None:
    """Count a file of `size` bytes that this thread has brought here."""
    task = here.task
    if task is None:
        return
    counts = task.recorder._counts_of_thread()
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
                task.recorder._begin_download(self._start)

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
        counts = recorder._counts_of_thread()
        counts[BUSY[cause]] += own
        if cause == _DOWNLOADS:
            counts["downloading_seconds"] += recorder._end_download(now)
