"""A new object store in one module: its class, its file system, and its server for the tests.

pytest loads this module as a plugin, so that the contract tests of stores also run over it. A store
of the package declares its file system as an entry point instead: see `Store`.
"""

import asyncio
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, quote, unquote

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem
from tests.kit.servers.http import Server, StartResponse, WSGIEnvironment, respond
from tests.kit.servers.stores import LOCAL, Lend, LocalStore, started, with_credentials

from mdstorm_backend.storage.stores.store import Lent, Store

PASS, OLD_PASS = "pass-of-the-shelf", "pass-of-yesterday"


class Shelf(Store):
    """The store of ``shelf://bucket/path``."""

    schemes = ("shelf",)
    name = "the shelf"
    variables = ("SHELF_URL", "SHELF_PASS")
    elsewhere = "no other place"
    to_set = "SHELF_URL and SHELF_PASS"
    secrets = frozenset({"pass_", "SHELF_PASS"})
    absences = frozenset({"NoShelfError"})
    refusals = frozenset({"ClosedError"})
    expiring = ("the pass is over",)

    def options_in_environment(self, url: str, options: Mapping[str, Any]) -> dict[str, Any]:
        names = {"server": "SHELF_URL", "pass_": "SHELF_PASS"}
        return {option: os.environ.get(name, "") for option, name in names.items()}

    def endpoint(self, filesystem: Any) -> str:
        return str(filesystem.server)

    def open_lent(self, kind: Any, arguments: dict[str, Any], lent: Lent) -> Any:
        return kind(**{**arguments, "pass_": lambda: lent()["pass_"]}, skip_instance_cache=True)


class NoShelfError(Exception):
    """The bucket does not exist."""


class ClosedError(Exception):
    """The pass is wrong."""


class ShelfFileSystem(AsyncFileSystem):
    """Objects behind ``GET``, ``PUT`` and ``DELETE``."""

    protocol = "shelf"

    def __init__(self, server: str, pass_: str | Callable[[], str], **options: Any) -> None:
        super().__init__(**options)
        self.server, self.pass_ = server, pass_

    def _send(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.server + quote(path, "/?="), body, method=method)
        request.add_header("Pass", self.pass_ if isinstance(self.pass_, str) else self.pass_())
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            said = error.read().decode()
            raise {404: NoShelfError, 403: ClosedError}.get(error.code, OSError)(said) from None

    async def _listed(self, prefix: str) -> dict[str, dict[str, Any]]:
        found = await asyncio.to_thread(self._send, "GET", f"/?prefix={prefix}")
        return {one["name"]: one for one in json.loads(found)}

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        found = await self._listed(path)
        if path in found:
            return found[path]
        if path == "books" or any(name.startswith(f"{path}/") for name in found):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    async def _find(self, path: str, detail: bool = False, **_: Any) -> Any:
        path = self._strip_protocol(path)
        found = await self._listed(path)
        kept = {k: v for k, v in sorted(found.items()) if k == path or k.startswith(f"{path}/")}
        return kept if detail else list(kept)

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        await self._info(path)
        content = await asyncio.to_thread(self._send, "GET", f"/{self._strip_protocol(path)}")
        return content[start:end]

    async def _get_file(self, path: str, target: str, **_: Any) -> None:
        content = await self._cat_file(path)
        with open(target, "wb") as file:
            file.write(content)

    async def _pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        await asyncio.to_thread(self._send, "PUT", f"/{self._strip_protocol(path)}", value)

    async def _rm_file(self, path: str, **_: Any) -> None:
        await self._info(path)
        await asyncio.to_thread(self._send, "DELETE", f"/{self._strip_protocol(path)}")


fsspec.register_implementation("shelf", ShelfFileSystem)


class ShelfServer(Server):
    """Has one bucket, ``books``, and accepts one pass."""

    def __init__(self, _: object) -> None:
        self.objects: dict[str, tuple[bytes, float]] = {}
        super().__init__(self._checked)

    def _checked(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        given, method = environ.get("HTTP_PASS"), environ["REQUEST_METHOD"]
        path = unquote(environ["PATH_INFO"]).strip("/")
        if given == OLD_PASS:
            return respond("410 Gone", b"The pass is over")(environ, start)
        if given != PASS:
            return respond("403 Forbidden", b"Closed")(environ, start)
        if not path:
            prefix = parse_qs(environ["QUERY_STRING"])["prefix"][0]
            listed = [
                {"name": name, "size": len(content), "mtime": when, "type": "file"}
                for name, (content, when) in list(self.objects.items())
                if name.startswith(prefix)
            ]
            return respond("200 OK", json.dumps(listed).encode())(environ, start)
        if method == "PUT":
            if not path.startswith("books/"):
                return respond("404 Not Found", b"no such bucket")(environ, start)
            content = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            self.objects[path] = content, time.time()
            return respond("200 OK")(environ, start)
        if method == "DELETE":
            del self.objects[path]
            return respond("200 OK")(environ, start)
        return respond("200 OK", self.objects[path][0])(environ, start)


@contextmanager
def _passes(_: ShelfServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lend]:
    monkeypatch.setenv("SHELF_PASS", "wrong")
    yield lambda seconds: {"pass_": OLD_PASS if seconds < 0 else PASS}


started_shelf = started("fsspec", ShelfServer)
shelf = with_credentials(
    "started_shelf", lambda server: {"SHELF_URL": server.url, "SHELF_PASS": PASS}
)
LOCAL.append(
    LocalStore(
        "shelf",
        ("shelf://books/data/numbers",),
        options_at=lambda url: {"server": url},
        lend=_passes,
    )
)
