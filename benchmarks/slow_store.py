"""An object store with latency and limited bandwidth, which implements the reading part of S3.

    python slow_store.py FOLDER LATENCY LINK CONNECTION [AT_ONCE]

Serves the files in FOLDER, whose subdirectories are buckets, until its standard input ends. The
first line of output is the port. It answers each line of input with a line of JSON: a list of the
requests since the last one, each with the time (in seconds of a monotonic clock), the method, the
path with the requested range, and the number of bytes sent.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import re
import sys
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

CHUNK = 32 << 10


class Pace:
    """Limits the rate at which bytes are sent, in request order."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free = 0.0

    def until(self, count: int) -> float:
        """Return the time at which this many more bytes will have been sent."""
        self._free = max(self._free, time.monotonic()) + count / self._rate
        return self._free


class SlowStore:
    """A server with a latency in seconds and limits in bytes/s: in total, and per connection.

    The latency is the work for a request, and `at_once` requests are worked on at a time.
    """

    def __init__(
        self, folder: str, latency: float, link: float, connection: float, at_once: float = 1e6
    ) -> None:
        self._working = asyncio.Semaphore(int(at_once))
        self._folder = Path(folder)
        self._latency = latency
        self._link = Pace(link)
        self._connection = connection
        self.log: list[list[Any]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests on a connection one after another."""
        pace = Pace(self._connection)
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                method, target, _ = head.split(" ", 2)
                asked = re.search(r"(?im)^range: *bytes=(\d+)-(\d*)", head)
                when = time.monotonic()
                async with self._working:
                    await asyncio.sleep(self._latency)
                status, headers, body = self._answer(target, asked)
                sent = body if method == "GET" else b""
                where = f"{target} {asked[0]}" if asked else target
                self.log.append([when, method, where, 0])
                entry = self.log[-1]
                headers["Content-Length"] = str(len(body))
                lines = [f"HTTP/1.1 {status}", *(f"{n}: {v}" for n, v in headers.items())]
                writer.write("\r\n".join([*lines, "", ""]).encode())
                for start in range(0, len(sent), CHUNK):
                    chunk = sent[start : start + CHUNK]
                    free = max(self._link.until(len(chunk)), pace.until(len(chunk)))
                    writer.write(chunk)
                    await writer.drain()
                    entry[3] += len(chunk)
                    await asyncio.sleep(free - time.monotonic())
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(
        self, target: str, asked: re.Match[str] | None
    ) -> tuple[str, dict[str, str], memoryview | bytes]:
        url = urlsplit(target)
        path = self._folder / unquote(url.path).strip("/")
        if "list-type" in parse_qs(url.query):
            return "200 OK", {}, self._listing(path, parse_qs(url.query).get("prefix", [""])[0])
        if not path.is_file():
            return "404 Not Found", {}, b"<Error><Code>NoSuchKey</Code></Error>"
        stat = path.stat()
        with path.open("rb") as file:
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        headers = {
            "ETag": f'"{stat.st_ino}-{stat.st_mtime_ns}"',
            "Last-Modified": formatdate(stat.st_mtime, usegmt=True),
        }
        if asked is None:
            return "200 OK", headers, content
        start = int(asked[1])
        stop = min(int(asked[2]) + 1, len(content)) if asked[2] else len(content)
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
        return "206 Partial Content", headers, content[start:stop]

    def _listing(self, bucket: Path, prefix: str) -> bytes:
        names = [p.relative_to(bucket).as_posix() for p in bucket.rglob("*") if p.is_file()]
        keys = [f"<Contents><Key>{n}</Key></Contents>" for n in names if n.startswith(prefix)]
        return f"<ListBucketResult>{''.join(keys)}</ListBucketResult>".encode()


async def main(folder: str, *figures: str) -> None:
    store = SlowStore(folder, *map(float, figures))
    server = await asyncio.start_server(store.serve, "127.0.0.1", limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(store.log), flush=True)
        store.log.clear()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
