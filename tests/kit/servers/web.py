"""A web server on localhost whose files are in memory, with the headers that a test chooses."""

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any
from urllib.parse import unquote

from tests.kit.servers.http import Server, StartResponse, WSGIEnvironment, respond


class WebServer(Server):
    """The server, which also answers requests for ranges.

    Attributes
    ----------
    files : dict of str to (bytes, datetime)
        Content and time of each file, by its path.
    states : set of str
        Which of ``ETag`` and ``Last-Modified`` it states.
    """

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, datetime]] = {}
        self.states = {"ETag", "Last-Modified"}
        super().__init__(self._application)

    def put(self, path: str, content: bytes) -> None:
        self.files[path] = content, datetime.now(timezone.utc)

    def grow_old(self) -> None:
        """Make all files two days older."""
        for path, (content, when) in self.files.items():
            self.files[path] = content, when - timedelta(days=2)

    def reset(self) -> None:
        super().reset()
        self.files.clear()
        self.states = {"ETag", "Last-Modified"}

    def _application(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = unquote(environ["PATH_INFO"])
        if path not in self.files:
            return respond("404 Not Found")(environ, start)
        content, when = self.files[path]
        stated = {
            "ETag": f'"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"',
            "Last-Modified": format_datetime(when, usegmt=True),
        }
        headers: list[Any] = [(name, stated[name]) for name in sorted(self.states)]
        status, asked = "200 OK", environ.get("HTTP_RANGE", "")
        if asked:
            first, last = asked.removeprefix("bytes=").split("-")
            stop = min(int(last) + 1, len(content)) if last else len(content)
            headers.append(("Content-Range", f"bytes {first}-{stop - 1}/{len(content)}"))
            status, content = "206 Partial Content", content[int(first) : stop]
        return respond(status, content, *headers)(environ, start)
