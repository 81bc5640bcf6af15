"""GETs of an object of S3, without all that a client does anew for each of them.

A client resolves, checks, signs and parses every call, which takes several times the CPU of the
request itself. Here an object's URL is signed once, and requests for its ranges are sent over the
client's connections. Whatever the store answers but the content is the client's: it knows regions,
expired credentials and errors.
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

#: Answers of a store that is asked too often.
_BUSY = (429, 503)
#: Seconds of a pause after such an answer, which doubles, and the longest one.
_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
#: What is read of an answer that says what is wrong.
_LONGEST_TEXT = 4096

#: Buckets that have refused signed URLs, by the file system of s3fs.
_refusing: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


class _BusyError(Exception):
    def __init__(self, text: str, wait: float) -> None:
        super().__init__(text)
        self.wait = wait


class Body(Protocol):
    """The bytes of an answer as they arrive."""

    async def read(self, count: int = -1) -> bytes:
        """Return at most so many bytes, by default all that come; none at the end."""

    def close(self) -> None:
        """Give the connection back, or close it if more would come."""


@dataclass(frozen=True)
class Answer:
    """What a store answers to a GET.

    Attributes
    ----------
    body : Body
        The bytes that were asked for.
    size : int
        Those of the whole object.
    tag : str or None
        Which version of it.
    modified : datetime.datetime, str or None
        When that was written; a string as in a header.
    """

    body: Body
    size: int
    tag: str | None
    modified: datetime | str | None


class _Received:
    """The body of an answer that aiohttp received."""

    def __init__(self, response: Any) -> None:
        self.read = response.content.read
        self.close = response.close


class S3Object:
    """An object that is read by a file system of s3fs, in the event loop of that.

    Parameters
    ----------
    filesystem : s3fs.S3FileSystem
        Where it is.
    path : str
        Its path there.
    pace : Pace
        Is told when the store refuses.
    patience : float
        Seconds for which a store that refuses is asked again.
    """

    def __init__(self, filesystem: Any, path: str, pace: Pace, patience: float) -> None:
        self._fs, self._pace, self._patience = filesystem, pace, patience
        self._bucket, key, version = filesystem.split_path(path)
        self._names = {"Bucket": self._bucket, "Key": key}
        if version:
            self._names["VersionId"] = version
        #: Its signed URL; "" while there is none, None if there is to be none.
        self._url: str | None = ""
        self._is_refused = False

    async def get(self, start: int = 0, stop: int | None = None) -> Answer:
        """Ask for the bytes from `start` to `stop`, by default for all of them.

        Raises
        ------
        StorageError
            If the store has refused for too long.
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
        if self._is_refused:  # the store has the object, but not for this URL
            self._url = None
            _refusing.setdefault(self._fs, set()).add(self._bucket)
        size = _size(described["ContentRange" if ranges else "ContentLength"])
        tag, modified = described.get("ETag"), described.get("LastModified")
        return Answer(described["Body"], size, tag, modified)

    async def _get_signed(self, ranges: Mapping[str, str]) -> Answer | None:
        """Ask by the signed URL; None if anything but the content is answered."""
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
        except Exception:  # the client tries again, and knows what to say
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
        """Return a URL for which nothing else has to be sent; None if there is none."""
        names = self._fs._get_s3_method_kwargs(client.get_object, **self._names, **self._fs.req_kw)
        if names != self._names or self._bucket in _refusing.get(self._fs, ()):
            return None
        client.meta.events.register_first(
            "choose-signer.s3.GetObject", _sign_by_version_4, unique_id="mdstorm"
        )
        try:
            url: str = await client.generate_presigned_url("get_object", Params=self._names)
        except Exception:  # as without credentials: the client knows what to say
            return None
        return url


def _size(stated: int | str) -> int:
    """Return the bytes of an object, of which a range is stated as ``bytes 0-9/100``."""
    return int(str(stated).rpartition("/")[2])


def _sign_by_version_4(signature_version: Any, **_: Any) -> str | None:
    """Sign URLs as requests are: botocore does it by version 2 in places, which stores refuse."""
    return "s3v4-query" if signature_version in ("v4-query", "s3v4-query") else None


async def _busy(response: Any) -> _BusyError:
    """Return the error for an answer of a busy store."""
    text = ""
    with suppress(Exception):  # the status says enough
        text = (await response.content.read(_LONGEST_TEXT)).decode(errors="replace")
    response.close()
    said = re.findall("<(?:Code|Message)>([^<]*)", text)
    after = response.headers.get("Retry-After", "")
    wait = float(after) if after.isdigit() else 0.0
    asked = f", and asks to wait {wait:g} s" if wait else ""
    detail = f" ({': '.join(said)})" if said else ""
    return _BusyError(f"the store answers {response.status} {response.reason}{detail}{asked}", wait)


#: Bytes that are asked for at a time before anything is measured, and at least.
_FIRST, _FEWEST = 64 << 20, 16 << 20
#: How many times as many as a link holds: as much again waits, so that it is never idle.
_GAIN = 2.0
#: What a round leaves of what was measured before, so that a change of the network is noticed.
_RATE_LEFT, _LEAST_LEFT = 0.9, 0.99
#: Answers after which a round of small objects is over.
_LONGEST_ROUND = 256


class Pace:
    """How much to ask a store for at a time: what its link holds, by Little's law, twice.

    Few requests leave a link idle while each waits for its first byte; many only queue, and a store
    that is asked too often refuses. Nobody has to say how many: it follows from what is measured.

    A link holds ``bytes per second`` times ``least seconds of a request``, from asking to the last
    byte. While it is not full, twice what it is found to hold is more than was under way, and the
    next round has more; when it is full, the number stays. A store that refuses halves the requests
    at a time, of which one more is allowed for every round that it answers.

    Parameters
    ----------
    connections : int
        Requests at a time, at most: as many as the client has connections.
    is_given : bool
        Whether the user said so: then there are as many, as long as the store answers.

    Attributes
    ----------
    bytes : float
        Bytes to ask for at a time.
    requests : float
        Requests at a time, whatever they ask for.
    resumes : float
        When requests may be sent again.
    refusal : str
        What the store said when it refused last; "" if it never did.
    is_full : bool
        Whether more was to be asked for than that: only then are rates those of the link.
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
        """Note that `size` bytes, asked for at `begun`, are there."""
        self.requests = min(self.requests + 1 / self.requests, self._connections)
        if not self._answers:  # without the time in which nothing was asked for
            self._since = max(self._since, begun)
        self._answers.append((now - begun, size))
        self._answered += size
        if self._answered >= self.bytes or len(self._answers) >= _LONGEST_ROUND:
            if self.is_full and self.bytes < inf:
                self._measure(now)
            self._begin_round(now)

    def _measure(self, now: float) -> None:
        mean = self._answered / len(self._answers)
        # Shorter ranges than most are there sooner for that alone.
        least = min(seconds for seconds, size in self._answers if size >= mean)
        self._least = min(self._least / _LEAST_LEFT, least)
        self._rate = max(self._rate * _RATE_LEFT, self._answered / (now - self._since))
        self.bytes = max(_GAIN * self._rate * self._least, _FEWEST)

    def refused(self, begun: float, now: float, wait: float, text: str) -> None:
        """Note that the store refused what was asked for at `begun`, for `wait` seconds.

        Refusals of requests that were under way together count once.
        """
        self.resumes, self.refusal = max(self.resumes, now + wait), text
        if begun >= self._halved:
            self._halved = now
            self.requests = max(self.requests / 2, 1.0)


class Turns:
    """Lets requests take turns in the order of the work that needs them. Of one event loop.

    Parameters
    ----------
    pace : Pace
        How many of them at a time.
    """

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self._taken = self._bytes = 0
        self._waiting: list[tuple[int, int, int, int, asyncio.Future[None]]] = []
        self._count = count()

    @asynccontextmanager
    async def taken(self, work: int, start: int, size: int) -> AsyncIterator[None]:
        """Wait for a turn, and keep it: for the range from `start` of an object."""
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
            if not turn.done():  # those of downloads that failed are cancelled
                if not self._has_room(size):
                    self.pace.is_full = True
                    return
                turn.set_result(None)
                self._taken += 1
                self._bytes += size
            heappop(self._waiting)

    def _has_room(self, size: int) -> bool:
        """Whether a request for so many bytes may be sent; one may always be under way."""
        pace = self.pace
        return not self._taken or (
            self._taken + 1 <= pace.requests and self._bytes + size <= pace.bytes
        )
