"""GET requests for an object of S3, without the overhead of a client's calls.

A client resolves, checks, signs and parses every call, which takes several times the CPU of the
request itself. Here an object's URL is signed once, and requests for its ranges are sent over the
client's connections. If the store answers with anything but the content, the request is repeated by
the client, which handles regions, expired credentials and errors.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import random
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from mdstorm_backend.errors import StorageError

#: HTTP statuses of a store that receives too many requests.
_BUSY = (429, 503)
#: Seconds of the first pause after such an answer, which doubles each time, and of the longest.
_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
#: Largest number of bytes read of an error answer.
_LONGEST_TEXT = 4096

#: Buckets that have refused signed URLs, by file system.
_refusing: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


class _BusyError(Exception):
    def __init__(self, text: str, wait: float) -> None:
        super().__init__(text)
        self.wait = wait


class Body(Protocol):
    """The body of an answer, read as it arrives."""

    async def read(self, count: int = -1) -> bytes:
        """Return at most `count` bytes, by default all of them; none at the end."""

    def close(self) -> None:
        """Release the connection, or close it if the body was not read completely."""


@dataclass(frozen=True)
class Answer:
    """The answer of a store to a GET.

    Attributes
    ----------
    body : Body
        The requested bytes.
    size : int
        Size of the whole object in bytes.
    tag : str or None
        The entity tag, which identifies the version of the object.
    modified : datetime.datetime, str or None
        When the object was written; a string if taken from a header.
    """

    body: Body
    size: int
    tag: str | None
    modified: datetime | str | None


class _Received:
    """The body of an answer received by aiohttp."""

    def __init__(self, response: Any) -> None:
        self.read = response.content.read
        self.close = response.close


class S3Object:
    """An object of S3, read in the event loop of its file system.

    Parameters
    ----------
    filesystem : s3fs.S3FileSystem
        The file system of the object.
    path : str
        Path of the object in it.
    pace : Pace
        Notified when the store refuses requests.
    patience : float
        Seconds for which requests that the store refuses are retried.
    """

    def __init__(self, filesystem: Any, path: str, pace: Pace, patience: float) -> None:
        self._fs, self._pace, self._patience = filesystem, pace, patience
        self._bucket, key, version = filesystem.split_path(path)
        self._names = {"Bucket": self._bucket, "Key": key}
        if version:
            self._names["VersionId"] = version
        #: The signed URL; "" before it is signed, None if signed URLs cannot be used.
        self._url: str | None = ""
        self._is_refused = False

    async def get(self, start: int = 0, stop: int | None = None) -> Answer:
        """Request the bytes from `start` to `stop`, by default all of them.

        Raises
        ------
        StorageError
            If the store has refused requests for too long.
        """
        ranges = {} if stop is None else {"Range": f"bytes={start}-{stop - 1}"}
        pace, now = self._pace, asyncio.get_running_loop().time
        since, pause = now(), _PAUSE
        while True:
            begun = now()
            if pace.resumes - since > self._patience:
                raise StorageError(pace.refusal)
            if pace.resumes > begun:
                await asyncio.sleep(pace.resumes - begun)
            try:
                return await self._get_signed(ranges) or await self._get_by_client(ranges)
            except _BusyError as error:
                wait = max(error.wait, pause * (1 + random()))
                pace.refused(begun, now(), wait, str(error))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _get_by_client(self, ranges: Mapping[str, str]) -> Answer:
        described = await self._fs._call_s3(
            "get_object", **self._names, **ranges, **self._fs.req_kw
        )
        if self._is_refused:  # the store has the object, but refused the signed URL
            self._url = None
            _refusing.setdefault(self._fs, set()).add(self._bucket)
        size = _size(described["ContentRange" if ranges else "ContentLength"])
        tag, modified = described.get("ETag"), described.get("LastModified")
        return Answer(described["Body"], size, tag, modified)

    async def _get_signed(self, ranges: Mapping[str, str]) -> Answer | None:
        """Request by the signed URL; return None unless the answer is the content."""
        from botocore.awsrequest import AWSPreparedRequest, HeadersDict

        client = await self._client()
        session = getattr(getattr(client, "_endpoint", None), "http_session", None)
        if self._url == "":
            self._url = await self._signed(client) if session is not None else None
        if self._url is None or session is None:
            return None
        request = AWSPreparedRequest("GET", self._url, HeadersDict(ranges), None, True)
        try:
            response = (await session.send(request)).raw
        except Exception:  # the client retries, and reports the error
            return None
        if response.status in _BUSY:
            raise await _busy(response)
        headers = response.headers
        with suppress(KeyError, ValueError):
            if response.status == (206 if ranges else 200):
                size = _size(headers["Content-Range" if ranges else "Content-Length"])
                tag, modified = headers.get("ETag"), headers.get("Last-Modified")
                return Answer(_Received(response), size, tag, modified)
        response.close()
        self._is_refused = 300 <= response.status < 500
        return None

    async def _client(self) -> Any:
        await self._fs.set_session()
        return await self._fs.get_s3(self._bucket)

    async def _signed(self, client: Any) -> str | None:
        """Return a signed URL that needs no further headers; None if not possible."""
        names = self._fs._get_s3_method_kwargs(client.get_object, **self._names, **self._fs.req_kw)
        if names != self._names or self._bucket in _refusing.get(self._fs, ()):
            return None
        client.meta.events.register_first(
            "choose-signer.s3.GetObject", _sign_by_version_4, unique_id="mdstorm"
        )
        try:
            url: str = await client.generate_presigned_url("get_object", Params=self._names)
        except Exception:  # for example no credentials: the client reports the error
            return None
        return url


def _size(stated: int | str) -> int:
    """Parse the size of an object from a length, or from a range such as ``bytes 0-9/100``."""
    return int(str(stated).rpartition("/")[2])


def _sign_by_version_4(signature_version: Any, **_: Any) -> str | None:
    """Choose signature version 4 for URLs: botocore may choose 2, which stores refuse."""
    return "s3v4-query" if signature_version in ("v4-query", "s3v4-query") else None


async def _busy(response: Any) -> _BusyError:
    """Return the error for an answer by which a store refuses a request as too many."""
    text = ""
    with suppress(Exception):  # the status is enough
        text = (await response.content.read(_LONGEST_TEXT)).decode(errors="replace")
    response.close()
    said = re.findall("<(?:Code|Message)>([^<]*)", text)
    after = response.headers.get("Retry-After", "")
    wait = float(after) if after.isdigit() else 0.0
    asked = f", and asks to wait {wait:g} s" if wait else ""
    detail = f" ({': '.join(said)})" if said else ""
    return _BusyError(f"the store answers {response.status} {response.reason}{detail}{asked}", wait)


#: Bytes to request at a time: before anything is measured, and the least ever.
_FIRST, _FEWEST = 64 << 20, 16 << 20
#: Bytes requested at a time, relative to what the link holds: the surplus keeps it from idling.
_GAIN = 2.0
#: How much of earlier measurements remains after a round, so that changes of the network show.
_RATE_LEFT, _LEAST_LEFT = 0.9, 0.99
#: Answers that end a round of small objects.
_LONGEST_ROUND = 256


class Pace:
    """How much to request from a store at a time: twice the capacity of its link.

    With few requests a link idles while each waits for its first byte. Many requests only queue,
    and a store that receives too many refuses them. The right number is measured, not configured.

    By Little's law, the capacity of a link is ``bytes per second`` times ``least seconds of a
    request``, from sending it to the last byte. While the link is not full, twice the measured
    capacity is more than was under way, so the next round requests more; once it is full, the
    number stays. If the store refuses a request, the number of requests at a time is halved; it
    grows by about one for each round of answers.

    Parameters
    ----------
    connections : int
        Largest number of requests at a time: the connections of the client.
    is_given : bool
        Whether the user set this number: then it is used as long as the store answers, and bytes
        are not limited.

    Attributes
    ----------
    bytes : float
        Bytes to request at a time.
    requests : float
        Requests at a time, whatever their sizes.
    resumes : float
        Time at which requests may be sent again, on the event loop's clock.
    refusal : str
        The store's latest refusal; "" if it never refused.
    is_full : bool
        Whether requests had to wait in this round: only then do rates measure the link.
    """

    def __init__(self, connections: int, *, is_given: bool = False) -> None:
        self.requests = self._connections = float(connections)
        self.bytes = inf if is_given else _FIRST
        self.resumes, self.refusal = 0.0, ""
        self._halved = -inf
        self._least, self._rate = inf, 0.0
        self._begin_round(0.0)

    def _begin_round(self, now: float) -> None:
        self._since, self._answered = now, 0
        #: Seconds and bytes of each answer.
        self._answers: list[tuple[float, int]] = []
        self.is_full = False

    def answered(self, begun: float, now: float, size: int) -> None:
        """Record that `size` bytes, requested at time `begun`, have arrived."""
        self.requests = min(self.requests + 1 / self.requests, self._connections)
        if not self._answers:  # leave out the time in which nothing was requested
            self._since = max(self._since, begun)
        self._answers.append((now - begun, size))
        self._answered += size
        if self._answered >= self.bytes or len(self._answers) >= _LONGEST_ROUND:
            if self.is_full and self.bytes < inf:
                self._measure(now)
            self._begin_round(now)

    def _measure(self, now: float) -> None:
        mean = self._answered / len(self._answers)
        # Ranges shorter than most arrive sooner only because they are short.
        least = min(seconds for seconds, size in self._answers if size >= mean)
        self._least = min(self._least / _LEAST_LEFT, least)
        self._rate = max(self._rate * _RATE_LEFT, self._answered / (now - self._since))
        self.bytes = max(_GAIN * self._rate * self._least, _FEWEST)

    def refused(self, begun: float, now: float, wait: float, text: str) -> None:
        """Record that the store refused a request of time `begun`; pause for `wait` seconds.

        Refusals of requests that were under way together count once.
        """
        self.resumes, self.refusal = max(self.resumes, now + wait), text
        if begun >= self._halved:
            self._halved = now
            self.requests = max(self.requests / 2, 1.0)


class Turns:
    """Lets the requests of one event loop take turns, in the order of the work that needs them.

    Parameters
    ----------
    pace : Pace
        Limits the requests at a time.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._taken = self._bytes = 0
        self._waiting: list[tuple[int, int, int, int, asyncio.Future[None]]] = []
        self._count = count()

    @asynccontextmanager
    async def taken(self, work: int, start: int, size: int) -> AsyncIterator[None]:
        """Wait for a turn for `size` bytes of an object from `start` on; hold it in the block."""
        turn = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (work, start, next(self._count), size, turn))
        self._give()
        try:
            await turn
            yield
        finally:
            if not turn.cancelled():
                self._taken -= 1
                self._bytes -= size
            self._give()

    def _give(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0][-2:]
            if not turn.done():  # turns of failed downloads are cancelled
                if not self._has_room(size):
                    self.pace.is_full = True
                    return
                turn.set_result(None)
                self._taken += 1
                self._bytes += size
            heappop(self._waiting)

    def _has_room(self, size: int) -> bool:
        """Whether a request for `size` bytes may be sent; a single one always may."""
        pace = self.pace
        return not self._taken or (
            self._taken + 1 <= pace.requests and self._bytes + size <= pace.bytes
        )
