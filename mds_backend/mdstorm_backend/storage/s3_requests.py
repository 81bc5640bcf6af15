"""GETs of an object of S3, without all that a client does anew for each of them.

A client resolves, checks, signs and parses every call, which takes several times the CPU of the
request itself. Here an object's URL is signed once, and requests for its ranges are sent over the
client's connections. Whatever the store answers but the content is the client's: it knows regions,
expired credentials and errors.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from random import random
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from mdstorm_backend.errors import StorageError
from mdstorm_backend.storage.request_pace import Pace

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
