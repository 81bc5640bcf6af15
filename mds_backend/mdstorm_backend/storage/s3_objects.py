"""Read objects of S3 in as few requests as it takes, large ones by ranges.

s3fs by itself asks for an object's size before it reads it, and does not see when an object is
replaced between the ranges that it reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any, BinaryIO, TypeVar
from weakref import WeakKeyDictionary

from mdstorm_backend.base.ordered_pool import place
from mdstorm_backend.errors import StorageError
from mdstorm_backend.storage.arrival import Arrival, arrival_here

#: Bytes of a range; those at the beginning of an object are shorter where somebody waits for it.
_RANGE, _FIRST_RANGE = 8 << 20, 2 << 20
#: Ranges that a process reads at a time: as many as its client of S3 has connections.
_AT_A_TIME = 10
#: How often a range is asked for whose connection breaks off.
_ATTEMPTS = 5
_CHUNK = 1 << 20

_T = TypeVar("_T")


class ReplacedError(StorageError):
    """An object was replaced whose beginning others have read: no further attempt can go on."""


class _Turns:
    """Lets ranges take turns in the order of the work that needs them. Of one event loop."""

    def __init__(self) -> None:
        self._free = _AT_A_TIME
        self._waiting: list[tuple[int, int, int, asyncio.Future[None]]] = []
        self._count = count()

    @asynccontextmanager
    async def taken(self, work: int, start: int) -> AsyncIterator[None]:
        """Wait for a turn, and keep it: for the range from `start` of an object."""
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (work, start, next(self._count), turn))
        self._give()
        try:
            await turn
            yield
        finally:
            if not turn.cancelled():
                self._free += 1
            self._give()

    def _give(self) -> None:
        while self._free and self._waiting:
            turn = heappop(self._waiting)[-1]
            if not turn.done():  # those of downloads that failed are cancelled
                turn.set_result(None)
                self._free -= 1


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, _Turns] = WeakKeyDictionary()


def is_s3(filesystem: Any) -> bool:
    """Whether a file system is that of s3fs."""
    return "s3" in filesystem.protocol and hasattr(filesystem, "_call_s3")


def read_object(filesystem: Any, path: str) -> tuple[bytes, dict[str, Any]]:
    """Return the content of an object, and what the answer says about it, by one request."""

    async def read() -> tuple[bytes, dict[str, Any]]:
        answer = await _get(filesystem, path)
        return await answer["Body"].read(), answer

    return _waited_for(filesystem, read)


def download_object(filesystem: Any, path: str, target: str, size: int, timeout: float) -> None:
    """Copy an object to a local file, by ranges that are all of one version of it.

    Objects that are copied at the same time get their ranges one object after the other, in the
    order of the work of threads of an `OrderedPool`. Where a connection breaks off, what is left of
    its range is asked for again. What has arrived of a file that is read meanwhile is not copied
    again, and the rest is of the same version.

    Parameters
    ----------
    filesystem : s3fs.S3FileSystem
        Where the object is.
    path : str
        Its path there.
    target : str
        The local file. An error may leave part of it.
    size : int
        The bytes that the object should have. If it has others, the file has as many, but not its
        content.
    timeout : float
        Seconds that a range may wait without receiving data.

    Raises
    ------
    StorageError
        If no data were received for so long, or the object was replaced meanwhile; the latter is a
        `ReplacedError` if the file is read meanwhile.
    """
    arrival = arrival_here()
    if arrival is None or arrival.version is None:
        first = _RANGE if arrival is None else _FIRST_RANGE
        arrival = arrival or Arrival()
        starts = [*range(0, min(max(size, 1), _RANGE), first), *range(_RANGE, size, _RANGE)]
        arrival.missing = dict(zip(starts, [*starts[1:], size], strict=True))
    with open(target, "r+b" if arrival.content else "wb") as file:
        _waited_for(filesystem, _Download(filesystem, path, file, size, timeout, arrival).run)


class _OtherSizeError(Exception):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


@dataclass(eq=False)
class _Download:
    """An object on its way to a file. Everything happens in the event loop of its file system."""

    fs: Any
    path: str
    file: BinaryIO
    size: int
    timeout: float
    arrival: Arrival
    work: int = field(default_factory=place)
    #: Set when the first range is answered. The others wait for it, so that earlier work which
    #: begins a moment later still has its turns first.
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        ranges = sorted(self.arrival.missing.items())
        tasks = [asyncio.ensure_future(self._copy(*bounds)) for bounds in ranges]
        try:
            await asyncio.gather(*tasks)
        except _OtherSizeError as error:
            self.file.truncate(error.size)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _copy(self, start: int, stop: int) -> None:
        """Copy the range from `start` to `stop`."""
        from botocore.exceptions import IncompleteReadError
        from s3fs.core import S3_RETRYABLE_ERRORS

        if start > min(self.arrival.missing):
            await self.begun.wait()
        turns = _turns.setdefault(asyncio.get_running_loop(), _Turns())
        async with turns.taken(self.work, start):
            for _ in range(_ATTEMPTS):
                body = await self._ask(start, stop)
                with suppress(ConnectionError, IncompleteReadError, *S3_RETRYABLE_ERRORS):
                    while start < stop and (chunk := await self._in_time(body.read(_CHUNK))):
                        self.file.seek(start)
                        self.file.write(chunk)
                        self.file.flush()
                        self.arrival.receive(start, len(chunk))
                        start += len(chunk)
                body.close()
                if start >= stop:
                    return
        raise StorageError(f"the connection broke off {_ATTEMPTS} times, at last at byte {start}")

    async def _ask(self, start: int, stop: int) -> Any:
        """Return the body of the answer to the request for a range."""
        is_whole = stop - start == self.size
        ranges = {} if is_whole else {"Range": f"bytes={start}-{stop - 1}"}
        answer = await self._in_time(_get(self.fs, self.path, **ranges))
        body, arrival = answer["Body"], self.arrival
        size = answer["ContentLength"] if is_whole else answer["ContentRange"].rpartition("/")[2]
        version = answer.get("ETag"), int(size)
        if arrival.version not in (None, version):
            body.close()
            if arrival.content:
                url = f"s3://{self.path}"
                raise ReplacedError(
                    f"{url} was replaced while it was read. Open the dataset again", url=url
                )
            raise StorageError("it was replaced while it was read")
        if int(size) != self.size:
            body.close()
            raise _OtherSizeError(int(size))
        arrival.version = version
        self.begun.set()
        return body

    async def _in_time(self, received: Awaitable[_T]) -> _T:
        try:
            return await asyncio.wait_for(received, self.timeout)
        except asyncio.TimeoutError as error:
            raise StorageError(f"no data was received for {self.timeout:g} s") from error


async def _get(filesystem: Any, path: str, **arguments: str) -> dict[str, Any]:
    bucket, key, version = filesystem.split_path(path)
    if version:
        arguments["VersionId"] = version
    arguments |= filesystem.req_kw
    answer: dict[str, Any] = await filesystem._call_s3(
        "get_object", Bucket=bucket, Key=key, **arguments
    )
    return answer


def _waited_for(filesystem: Any, run: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine in the event loop of a file system, and return its result."""
    from fsspec.asyn import sync

    result: _T = sync(filesystem.loop, run)
    return result
