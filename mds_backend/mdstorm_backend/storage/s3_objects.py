"""Read S3 objects in as few requests as possible, large ones in ranges.

By itself, s3fs requests an object's size before reading the object, and does not notice if it is
replaced between two ranges. Its client resolves, checks, signs and parses every call, which takes
several times the CPU of the request itself. Here, an object's URL is signed once, and requests for
its ranges are sent over the client's connections. If the store returns anything other than the
content, the client repeats the request, and handles regions, expired credentials and errors.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from random import random
from typing import Any, TypeVar

from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.base.work_ahead import current_priority
from mdstorm_backend.errors import StorageError
from mdstorm_backend.storage.local_files import Arrival, Version, parsed_time
from mdstorm_backend.storage.stores.s3 import CONNECTIONS
from mdstorm_backend.storage.turns import Pace, RequestTurns

#: Bytes per range; the first ranges of an object are shorter if it is read while it downloads.
RANGE, FIRST_RANGE = 8 << 20, 2 << 20
#: Seconds from the first request for an object until requests for its other ranges may begin, even
#: if the first has not been answered.
_HEAD_START = 0.05
#: Maximum number of requests for a range whose connection keeps breaking.
_ATTEMPTS = 5
_CHUNK = 1 << 20
#: The queue position of ranges that a reader needs first: before the first byte of their object.
_AHEAD = -1
#: botocore's number of client connections, which file systems from the caller have.
_DEFAULT_CONNECTIONS = 10
#: Seconds for which requests for a whole object are retried while the store is busy.
PATIENCE = 10.0

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)


class ReplacedError(StorageError):
    """An object was replaced after part of it had been used, so a retry cannot help."""


def turns_of(filesystem: Any) -> RequestTurns:
    """Return the `RequestTurns` of a file system.

    The object itself keeps them: fsspec's file systems are equal if their arguments are, even if
    they were opened in another environment.
    """
    turns: RequestTurns | None = vars(filesystem).get("_mdstorm_turns")
    if turns is None:
        given = (filesystem.config_kwargs or {}).get("max_pool_connections")
        pace = Pace(given or _DEFAULT_CONNECTIONS, is_given=given not in (None, CONNECTIONS))
        turns = filesystem._mdstorm_turns = RequestTurns(pace)
    return turns


def is_s3(filesystem: Any) -> bool:
    """Whether a file system, or a file system class, belongs to s3fs."""
    return hasattr(filesystem, "_call_s3")


def read_object(filesystem: Any, path: str) -> tuple[bytes, Version]:
    """Return an object's content and version, using one request."""

    async def read() -> tuple[bytes, Version]:
        answer = await S3Object(filesystem, path, turns_of(filesystem), PATIENCE).get()
        return await answer.read(), answer.version

    return _waited_for(filesystem, read)


def read_up_to(filesystem: Any, path: str, most: int) -> tuple[bytes, int]:
    """Return an object's content and size, using one request; no content if it is too large."""

    async def read() -> tuple[bytes, int]:
        answer = await S3Object(filesystem, path, turns_of(filesystem), PATIENCE).get()
        if answer.size > most:
            answer.close()
            return b"", answer.size
        return await answer.read(), answer.size

    return _waited_for(filesystem, read)


def download_object(
    filesystem: Any, path: str, target: str, size: int, timeout: float, arrival: Arrival | None
) -> Version | None:
    """Copy an object to a local file, in ranges that are all from the same version of the object.

    Objects that are copied at the same time take turns by priority: see `WorkAhead.begin`. If a
    connection breaks, the rest of its range is requested again. With an `arrival`, bytes that have
    arrived in an earlier attempt are not copied again, and the rest must be of the same version.

    Parameters
    ----------
    filesystem : s3fs.S3FileSystem
        The file system of the object.
    path : str
        Path of the object in it.
    target : str
        The local file. An error may leave a partial file.
    size : int
        Expected size of the object in bytes. If the size differs, the file gets the object's size
        but not its content, so that the caller's check reports it.
    timeout : float
        Seconds that a range may wait without receiving data.
    arrival : Arrival or None
        The state of the file, if it is read while it is downloaded.

    Returns
    -------
    Version or None
        The version of the object; None if all bytes had arrived before.

    Raises
    ------
    StorageError
        If no data was received for `timeout` seconds, or the object was replaced; the latter is a
        `ReplacedError` with an `arrival`.
    """
    is_read = arrival is not None
    if arrival is None or arrival.version is None:
        arrival = arrival or Arrival()
        first = FIRST_RANGE if is_read else RANGE
        starts = [*range(0, min(max(size, 1), RANGE), first), *range(RANGE, size, RANGE)]
        arrival.missing = dict(zip(starts, [*starts[1:], size], strict=True))
    file = os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        download = _Download(filesystem, path, file, size, timeout, arrival, is_read)
        _waited_for(filesystem, download.run)
    finally:
        os.close(file)
    return arrival.source


class _OtherSizeError(Exception):
    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


@dataclass(eq=False)
class _Download:
    """The download of an object to a file, which runs in its file system's event loop."""

    fs: Any
    path: str
    file: int
    size: int
    timeout: float
    arrival: Arrival
    is_read: bool
    work: int = field(default_factory=current_priority)
    #: Set when the first range is answered, or by `_begin_soon`. The other ranges wait for it: by
    #: then the URL is signed, and work that is needed earlier, but starts a moment later, still
    #: gets its turns first.
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    #: Tasks that copy the ranges that a reader needs first.
    ahead: list[asyncio.Task[None]] = field(default_factory=list)
    is_over: bool = False

    async def run(self) -> None:
        self._turns = turns_of(self.fs)
        self._object = S3Object(self.fs, self.path, self._turns, self.timeout)
        first, *others = sorted(self.arrival.missing.items())
        tasks = [asyncio.ensure_future(self._copy(*bounds)) for bounds in others]
        soon = asyncio.ensure_future(self._begin_soon())
        self.arrival.request = partial(self._request_ahead, asyncio.get_running_loop())
        try:
            await self._copy(*first)
            await asyncio.gather(*tasks)
        except _OtherSizeError as error:
            os.truncate(self.file, error.size)
        finally:
            self.arrival.request, self.is_over = None, True
            for task in (soon, *tasks, *self.ahead):
                task.cancel()
            await asyncio.gather(soon, *tasks, *self.ahead, return_exceptions=True)

    async def _begin_soon(self) -> None:
        """Let the other ranges begin soon if the store has responded and never refused requests."""
        await self._object.sent.wait()
        await asyncio.sleep(_HEAD_START)
        if self._turns.pace.has_answered and not self._turns.pace.refusal:
            self.begun.set()

    def _request_ahead(
        self, loop: asyncio.AbstractEventLoop, ranges: Sequence[tuple[int, int]]
    ) -> Future[bool]:
        """Copy ranges ahead of the missing bytes that precede them; see `Arrival`."""
        return asyncio.run_coroutine_threadsafe(self._copy_ahead(ranges), loop)

    async def _copy_ahead(self, ranges: Sequence[tuple[int, int]]) -> bool:
        if self.is_over:
            return False
        tasks = [asyncio.create_task(self._copy(*bounds, is_ahead=True)) for bounds in ranges]
        self.ahead += tasks
        errors = [e for e in await asyncio.gather(*tasks, return_exceptions=True) if e is not None]
        if errors:  # the download also copies these bytes, and reports persistent errors
            _logger.debug("%s: ranges needed first have not arrived (%s)", self.path, errors[0])
        return not errors

    async def _copy(self, start: int, stop: int, *, is_ahead: bool = False) -> None:
        """Copy the range from `start` to `stop`, with retries."""
        from botocore.exceptions import IncompleteReadError
        from s3fs.core import S3_RETRYABLE_ERRORS

        if not is_ahead and start > min(self.arrival.missing):
            await self.begun.wait()
        position = _AHEAD if is_ahead else start
        async with self._turns.taken(self.work, position, stop - start) as turn:
            with _Deadline(self.timeout, self._turns.pace) as deadline:
                for _ in range(_ATTEMPTS):
                    asked, first = deadline.heard(), start
                    answer = await self._request(start, stop)
                    with suppress(ConnectionError, IncompleteReadError, *S3_RETRYABLE_ERRORS):
                        while start < stop and (chunk := await answer.read(_CHUNK)):
                            deadline.heard()
                            os.pwrite(self.file, chunk, start)
                            if not is_ahead:
                                self.arrival.receive(start, len(chunk))
                            turn.arrived(len(chunk))
                            start += len(chunk)
                    answer.close()
                    if start >= stop:
                        heard = deadline.heard()
                        if not is_ahead:  # short ranges measure latency only
                            self._turns.pace.answered(asked, heard, start - first)
                        return
        raise StorageError(
            f"the connection was interrupted {_ATTEMPTS} times, the last time at byte {start}"
        )

    async def _request(self, start: int, stop: int) -> Answer:
        """Request a range and return the response after checking the object's version and size."""
        is_whole = stop - start == self.size
        answer = await self._object.get(start, None if is_whole else stop)
        version, arrival = (answer.tag, answer.size), self.arrival
        arrival.source = arrival.source or answer.version
        if arrival.version not in (None, version):
            answer.close()
            if self.is_read:
                url = self.fs.unstrip_protocol(self.path)
                raise ReplacedError(
                    f"{url} was replaced while it was read. Open the dataset again", url=url
                )
            raise StorageError("it was replaced while it was read")
        if answer.size != self.size:
            answer.close()
            raise _OtherSizeError(answer.size)
        arrival.version = version
        self.begun.set()
        return answer


class _Deadline(OwnContext):
    """A block in which the current task fails with StorageError if no data arrives for too long.

    One timer serves all chunks, because `asyncio.wait_for` would create a task for each.
    """

    def __init__(self, seconds: float, pace: Pace) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._seconds, self._pace = task, seconds, pace
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._check)
        self._is_over = False

    def heard(self) -> float:
        """Restart the timer because data has arrived, and return the event loop's time."""
        self._since = self._loop.time()
        return self._since

    def _check(self) -> None:
        until = self._since + self._seconds
        self._is_over = until <= self._loop.time()
        if self._is_over:
            self._task.cancel()
        else:
            self._timer = self._loop.call_at(until, self._check)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self._timer.cancel()
        if self._is_over and kind is asyncio.CancelledError:
            said = f"; {self._pace.refusal}" if self._pace.refusal else ""
            raise StorageError(f"no data was received for {self._seconds:g} s{said}") from None


def _waited_for(filesystem: Any, run: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine in a file system's event loop and return its result."""
    from fsspec.asyn import sync

    result: _T = sync(filesystem.loop, run)
    return result


#: HTTP statuses from a store that receives too many requests.
_BUSY = (429, 503)
#: First and longest pause after such a status, in seconds; each pause is twice the previous one.
_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
#: Maximum number of bytes to read from an error response.
_LONGEST_TEXT = 4096


class _BusyError(Exception):
    def __init__(self, text: str, wait: float) -> None:
        super().__init__(text)
        self.wait = wait


@dataclass(frozen=True)
class Answer:
    """A store's response to a GET request.

    Attributes
    ----------
    read : callable
        Returns at most a given number of bytes, by default all of them; none at the end.
    close : callable
        Releases the connection, or closes it if the bytes were not read completely.
    size : int
        Size of the whole object in bytes.
    tag : str or None
        The entity tag, which identifies the version of the object.
    modified, sent : datetime.datetime, str or None
        When the object was written, and when the store sent it; a string if taken from a header.
    """

    read: Callable[..., Awaitable[bytes]]
    close: Callable[[], object]
    size: int
    tag: str | None
    modified: datetime | str | None
    sent: str | None

    @property
    def version(self) -> Version:
        """The version of the object."""
        return Version(self.tag, parsed_time(self.modified), parsed_time(self.sent))


class S3Object:
    """An S3 object, read in its file system's event loop.

    Parameters
    ----------
    filesystem : s3fs.S3FileSystem
        The file system of the object.
    path : str
        Path of the object in it.
    turns : RequestTurns
        The `RequestTurns` of the file system.
    patience : float
        Seconds for which requests that the store refuses are retried.
    """

    def __init__(self, filesystem: Any, path: str, turns: RequestTurns, patience: float) -> None:
        self._fs, self._path, self._turns, self._patience = filesystem, path, turns, patience
        self._bucket, key, version = filesystem.split_path(path)
        self._names = {"Bucket": self._bucket, "Key": key}
        if version:
            self._names["VersionId"] = version
        #: The signed URL; "" before it is signed, None if signed URLs cannot be used.
        self._url: str | None = ""
        self._is_accepted = self._is_refused = False
        #: Set when the first request is sent with a signed URL.
        self.sent = asyncio.Event()

    async def get(self, start: int = 0, stop: int | None = None) -> Answer:
        """Request the bytes from `start` to `stop`, by default all of them.

        Raises
        ------
        StorageError
            If the store has refused requests for too long.
        """
        ranges = {} if stop is None else {"Range": f"bytes={start}-{stop - 1}"}
        pace, now = self._turns.pace, asyncio.get_running_loop().time
        since, pause = now(), _PAUSE
        while True:
            begun = now()
            if pace.resumes - since > self._patience:
                raise StorageError(pace.refusal)
            if pace.resumes > begun:
                await asyncio.sleep(pace.resumes - begun)
            try:
                answer = await self._get_signed(ranges) or await self._get_by_client(ranges)
                pace.has_answered = True
                return answer
            except _BusyError as error:
                wait = max(error.wait, pause * (1 + random()))
                pace.refused(begun, now(), wait, str(error))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _get_by_client(self, ranges: Mapping[str, str]) -> Answer:
        response = await self._fs._call_s3("get_object", **self._names, **ranges, **self._fs.req_kw)
        if self._is_refused:  # the store has the object, but refused the signed URL
            self._url = None
            self._turns.refusing.add(self._bucket)
        size, body = (
            _size(response["ContentRange" if ranges else "ContentLength"]),
            response["Body"],
        )
        sent = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        modified = response.get("LastModified")
        return Answer(body.read, body.close, size, response.get("ETag"), modified, sent)

    async def _get_signed(self, ranges: Mapping[str, str]) -> Answer | None:
        """Send a request with the signed URL; return None unless the response is the content.

        Raises
        ------
        FileNotFoundError
            If there is no such object.
        """
        answer = await self._send_signed(ranges)
        if answer is None and self._url == "":  # the URL's credentials have expired
            answer = await self._send_signed(ranges)
        return answer

    async def _send_signed(self, ranges: Mapping[str, str]) -> Answer | None:
        from botocore.awsrequest import AWSPreparedRequest, HeadersDict

        await self._fs.set_session()
        client = await self._fs.get_s3(self._bucket)
        session = getattr(getattr(client, "_endpoint", None), "http_session", None)
        if self._url == "":
            self._url = await self._signed(client) if session is not None else None
        if self._url is None or session is None:
            return None
        request = AWSPreparedRequest("GET", self._url, HeadersDict(ranges), None, True)
        self.sent.set()
        try:
            response = (await session.send(request)).raw
        except Exception as error:  # the client retries, and reports the error
            # Only the kind of error, because its text may quote the URL.
            kind = type(error).__name__
            _logger.debug("%s: a request with a signed URL failed (%s)", self._bucket, kind)
            return None
        if response.status in _BUSY:
            raise await _busy(response)
        headers = response.headers
        with suppress(KeyError, ValueError):
            if response.status == (206 if ranges else 200):
                size = _size(headers["Content-Range" if ranges else "Content-Length"])
                tag, modified = headers.get("ETag"), headers.get("Last-Modified")
                self._is_accepted = True
                sent = headers.get("Date")
                return Answer(response.content.read, response.close, size, tag, modified, sent)
        text = (await response.content.read(_LONGEST_TEXT)).decode(errors="replace")
        response.close()
        if response.status == 404 and "<Code>NoSuchKey</Code>" in text:
            raise FileNotFoundError(errno.ENOENT, "there is no such object", self._path)
        is_refusal = 300 <= response.status < 500
        # Stores other than Amazon's use different codes for expired credentials.
        if is_refusal and ("ExpiredToken" in text or self._is_accepted):
            self._url = ""
        else:
            self._is_refused = is_refusal
        return None

    async def _signed(self, client: Any) -> str | None:
        """Return a signed URL that does not need further headers; None if impossible."""
        names = self._fs._get_s3_method_kwargs(client.get_object, **self._names, **self._fs.req_kw)
        if names != self._names or self._bucket in self._turns.refusing:
            return None
        client.meta.events.register_first(
            "choose-signer.s3.GetObject", _sign_by_version_4, unique_id="mdstorm"
        )
        try:
            url: str = await client.generate_presigned_url("get_object", Params=self._names)
        except Exception as error:  # for example no credentials: the client reports the error
            _logger.debug("%s: no URL can be signed (%r)", self._bucket, error)
            return None
        return url


def _size(stated: int | str) -> int:
    """Parse the size of an object from a length, or from a range such as ``bytes 0-9/100``."""
    return int(str(stated).rpartition("/")[2])


def _sign_by_version_4(signature_version: Any, **_: Any) -> str | None:
    """Choose signature version 4 for URLs, because botocore may choose 2, which stores refuse."""
    return "s3v4-query" if signature_version in ("v4-query", "s3v4-query") else None


async def _busy(response: Any) -> _BusyError:
    """Return the error for a response that rejects one of too many requests."""
    text = ""
    with suppress(Exception):  # the text is not essential
        text = (await response.content.read(_LONGEST_TEXT)).decode(errors="replace")
    response.close()
    said = re.findall("<(?:Code|Message)>([^<]*)", text)
    after = response.headers.get("Retry-After", "")
    wait = float(after) if after.isdigit() else 0.0
    asked = f", and asks to wait {wait:g} s" if wait else ""
    detail = f" ({': '.join(said)})" if said else ""
    return _BusyError(f"the store answers {response.status} {response.reason}{detail}{asked}", wait)
