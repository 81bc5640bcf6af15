"""Read objects of S3 in as few requests as possible, large ones by ranges.

s3fs alone requests an object's size before it reads it, and does not notice if the object is
replaced between two ranges.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from mdstorm_backend.base.threads import place
from mdstorm_backend.errors import StorageError
from mdstorm_backend.storage.local_files import Arrival
from mdstorm_backend.storage.s3_requests import Answer, Pace, S3Object, Turns

#: Bytes per range; the first ranges of an object are shorter if it is read while it downloads.
_RANGE, _FIRST_RANGE = 8 << 20, 2 << 20
#: Largest number of requests for a range whose connection breaks.
_ATTEMPTS = 5
_CHUNK = 1 << 20
#: Connections of a client: our default, and botocore's, for file systems that the caller passes.
CONNECTIONS, _DEFAULT_CONNECTIONS = 64, 10
#: Seconds for which requests for a whole object are retried while the store is busy.
_PATIENCE = 10.0

_T = TypeVar("_T")


class ReplacedError(StorageError):
    """Raised if an object was replaced after others read part of it; retrying does not help."""


#: By event loop and file system: a forked child has its own loop.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakKeyDictionary[Any, Turns]]
_turns = WeakKeyDictionary()


def _turns_of(filesystem: Any) -> Turns:
    """Return the `Turns` for a file system in the running event loop."""
    by_filesystem = _turns.setdefault(asyncio.get_running_loop(), WeakKeyDictionary())
    turns = by_filesystem.get(filesystem)
    if turns is None:
        given = (filesystem.config_kwargs or {}).get("max_pool_connections")
        pace = Pace(given or _DEFAULT_CONNECTIONS, is_given=given not in (None, CONNECTIONS))
        turns = by_filesystem[filesystem] = Turns(pace)
    return turns


def is_s3(filesystem: Any) -> bool:
    """Whether a file system, or a file system class, is that of s3fs."""
    return "s3" in filesystem.protocol and hasattr(filesystem, "_call_s3")


def read_object(filesystem: Any, path: str) -> tuple[bytes, datetime | None]:
    """Return the content and the modification time of an object, in one request."""
    from email.utils import parsedate_to_datetime  # imports the mail modules

    async def read() -> tuple[bytes, datetime | None]:
        pace = _turns_of(filesystem).pace
        answer = await S3Object(filesystem, path, pace, _PATIENCE).get()
        when = answer.modified
        written = parsedate_to_datetime(when) if isinstance(when, str) else when
        return await answer.body.read(), written

    return _waited_for(filesystem, read)


def download_object(
    filesystem: Any, path: str, target: str, size: int, timeout: float, arrival: Arrival | None
) -> None:
    """Copy an object to a local file, by ranges that are all of one version of the object.

    Objects that are copied at the same time take turns in the order of the work of an
    `OrderedPool`. If a connection breaks, the rest of its range is requested again. With an
    `arrival`, bytes that have arrived in an earlier attempt are not copied again, and the rest must
    be of the same version.

    Parameters
    ----------
    filesystem : s3fs.S3FileSystem
        The file system of the object.
    path : str
        Path of the object in it.
    target : str
        The local file. An error may leave part of it.
    size : int
        Expected size of the object in bytes. If the size differs, the file gets the object's size
        but not its content, so that the caller's check reports it.
    timeout : float
        Seconds that a range may wait without receiving data.
    arrival : Arrival or None
        The state of the file, if it is read while it is downloaded.

    Raises
    ------
    StorageError
        If no data was received for `timeout` seconds, or the object was replaced; the latter is a
        `ReplacedError` with an `arrival`.
    """
    is_read = arrival is not None
    if arrival is None or arrival.version is None:
        arrival = arrival or Arrival()
        first = _FIRST_RANGE if is_read else _RANGE
        starts = [*range(0, min(max(size, 1), _RANGE), first), *range(_RANGE, size, _RANGE)]
        arrival.missing = dict(zip(starts, [*starts[1:], size], strict=True))
    file = os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        download = _Download(filesystem, path, file, size, timeout, arrival, is_read)
        _waited_for(filesystem, download.run)
    finally:
        os.close(file)


class _OtherSizeError(Exception):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


@dataclass(eq=False)
class _Download:
    """The download of an object to a file, which runs in the event loop of its file system."""

    fs: Any
    path: str
    file: int
    size: int
    timeout: float
    arrival: Arrival
    is_read: bool
    work: int = field(default_factory=place)
    #: Set when the first range is answered. The others wait for it, so that an earlier item of work
    #: that starts a moment later still gets its turns first.
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        self._turns = _turns_of(self.fs)
        self._object = S3Object(self.fs, self.path, self._turns.pace, self.timeout)
        first, *others = sorted(self.arrival.missing.items())
        tasks = [asyncio.ensure_future(self._copy(*bounds)) for bounds in others]
        try:
            await self._copy(*first)
            await asyncio.gather(*tasks)
        except _OtherSizeError as error:
            os.truncate(self.file, error.size)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _copy(self, start: int, stop: int) -> None:
        """Copy the range from `start` to `stop`, with retries."""
        from botocore.exceptions import IncompleteReadError
        from s3fs.core import S3_RETRYABLE_ERRORS

        if start > min(self.arrival.missing):
            await self.begun.wait()
        async with self._turns.taken(self.work, start, stop - start):
            with self._deadline() as deadline:
                for _ in range(_ATTEMPTS):
                    asked, first = deadline.heard(), start
                    answer = await self._ask(start, stop)
                    with suppress(ConnectionError, IncompleteReadError, *S3_RETRYABLE_ERRORS):
                        while start < stop and (chunk := await answer.body.read(_CHUNK)):
                            deadline.heard()
                            os.pwrite(self.file, chunk, start)
                            self.arrival.receive(start, len(chunk))
                            start += len(chunk)
                    answer.body.close()
                    if start >= stop:
                        self._turns.pace.answered(asked, deadline.heard(), start - first)
                        return
        raise StorageError(f"the connection broke off {_ATTEMPTS} times, at last at byte {start}")

    async def _ask(self, start: int, stop: int) -> Answer:
        """Request a range and return the answer, after checking the object's version and size."""
        is_whole = stop - start == self.size
        answer = await self._object.get(start, None if is_whole else stop)
        version, arrival = (answer.tag, answer.size), self.arrival
        if arrival.version not in (None, version):
            answer.body.close()
            if self.is_read:
                url = f"s3://{self.path}"
                raise ReplacedError(
                    f"{url} was replaced while it was read. Open the dataset again", url=url
                )
            raise StorageError("it was replaced while it was read")
        if answer.size != self.size:
            answer.body.close()
            raise _OtherSizeError(answer.size)
        arrival.version = version
        self.begun.set()
        return answer

    @contextmanager
    def _deadline(self) -> Iterator[_Deadline]:
        deadline = _Deadline(self.timeout)
        try:
            yield deadline
        except asyncio.CancelledError:
            if not deadline.is_over:
                raise
            refusal = self._turns.pace.refusal
            said = f"; {refusal}" if refusal else ""
            raise StorageError(f"no data was received for {self.timeout:g} s{said}") from None
        finally:
            deadline.end()


class _Deadline:
    """A timer that cancels the current task if no data arrives for too long.

    One timer serves all chunks: `asyncio.wait_for` would create a task for each.
    """

    def __init__(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._seconds = task, seconds
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._check)
        self.is_over = False

    def heard(self) -> float:
        """Restart the timer, since data arrived, and return the event loop's time."""
        self._since = self._loop.time()
        return self._since

    def end(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        until = self._since + self._seconds
        self.is_over = until <= self._loop.time()
        if self.is_over:
            self._task.cancel()
        else:
            self._timer = self._loop.call_at(until, self._check)


def _waited_for(filesystem: Any, run: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine in the event loop of a file system and return its result."""
    from fsspec.asyn import sync

    result: _T = sync(filesystem.loop, run)
    return result
