"""Access Databricks storage through the workspace's API where it is not mounted.

Paths are the mounts' paths: ``/Volumes/<catalog>/<schema>/<volume>/…`` for Unity Catalog, and
``/dbfs/…`` for the workspace's own file system.
"""

from __future__ import annotations

import base64
import io
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote

from fsspec import AbstractFileSystem

from mdstorm_backend.base.optional import require
from mdstorm_backend.storage.urls import check_endpoint

_T = TypeVar("_T")

#: Bytes copied at a time: the most that the DBFS API reads in one request.
_CHUNK = 1 << 20
#: Maximum number of attempts for a request that fails with an internal error of the workspace.
_ATTEMPTS = 5


def _has_credentials() -> bool:
    """Whether the SDK may find credentials: all of its ways to authenticate need a host."""
    is_set = any(name.startswith("DATABRICKS_") for name in os.environ)
    return is_set or Path("~/.databrickscfg").expanduser().exists()


class DatabricksFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """An fsspec file system for a Databricks workspace, using ``databricks-sdk``.

    Parameters
    ----------
    is_volume : bool
        Whether paths are in Unity Catalog volumes, rather than in ``/dbfs/``.
    environment : int
        Hash of the environment's credentials, so that each set of them has its own instance.
    client_options : dict
        Arguments of the SDK's client.
    """

    protocol = "mdstorm-databricks"

    def __init__(
        self, *, is_volume: bool, environment: int, client_options: dict[str, Any]
    ) -> None:
        super().__init__()
        if not (client_options or _has_credentials()):
            raise PermissionError("no credentials are set")  # without importing the SDK: seconds
        host = client_options.get("host") or os.environ.get("DATABRICKS_HOST") or ""
        check_endpoint(host if "://" in host else f"https://{host}")
        client = require("databricks.sdk").WorkspaceClient(**client_options)
        self._api: _Volumes | _Dbfs = _Volumes(client) if is_volume else _Dbfs(client)

    @staticmethod
    def arguments_for(path: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for opening the file system of a path on a mount.

        Parameters
        ----------
        path : str
            A path under ``/Volumes/`` or ``/dbfs/``.
        options : dict
            Arguments for ``databricks.sdk.WorkspaceClient``, such as ``host`` and ``profile``.
        """
        # fsspec keeps one instance per set of arguments, so the credentials must be part of them.
        set_now = sorted((k, v) for k, v in os.environ.items() if k.startswith("DATABRICKS_"))
        is_volume, environment = path.startswith("/Volumes/"), hash(tuple(set_now))
        return {"is_volume": is_volume, "environment": environment, "client_options": options}

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return the description of a file or a directory."""
        path = self._strip_protocol(path)
        try:
            return self._request(self._api.file_info, path)
        except FileNotFoundError:
            self._request(lambda path: next(self._api.entries(path), None), path)
        return {"name": path, "size": 0, "type": "directory"}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Return the entries of a directory."""
        found = self._request(lambda path: list(self._api.entries(path)), path)
        return found if detail else [entry["name"] for entry in found]

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Return the content of a file, or its bytes from `start` to `end`."""
        if start is not None and end is not None and 0 <= start < end:
            return self._request(self._api.read, path, start, end)
        with self._request(self._api.reader, path) as source:
            return source.read()[start:end]

    def get_file(self, rpath: str, lpath: str, **_: Any) -> None:
        """Copy a file to the local disk, one chunk at a time."""
        with self._request(self._api.reader, rpath) as source, open(lpath, "wb") as target:
            shutil.copyfileobj(source, target, _CHUNK)

    def pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        """Write a file in one request."""
        self._request(self._api.upload, path, value)

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        self._request(self._api.remove, path)

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove a file, or a directory with everything in it."""
        if not recursive:
            self.rm_file(path)
            return
        for entry in self.ls(path):
            self.rm(entry["name"], recursive=entry["type"] == "directory")
        self.rmdir(path)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        self._request(self._api.remove_directory, path)

    def makedirs(self, path: str, exist_ok: bool = True) -> None:
        """Create a directory and its parents, unless it already exists."""
        self._request(self._api.make_directory, path)

    def _request(self, call: Callable[..., _T], path: str, *arguments: Any) -> _T:
        """Call the API and retry internal workspace errors, which the SDK does not retry.

        Raises
        ------
        FileNotFoundError
            If the workspace reports that the file does not exist.
        """
        path = self._strip_protocol(path)
        attempt = 1
        while True:
            try:
                return call(path, *arguments)
            except Exception as error:
                kinds = {kind.__name__ for kind in type(error).__mro__}
                if "NotFound" in kinds:
                    raise FileNotFoundError(path) from error
                if "InternalError" not in kinds or attempt == _ATTEMPTS:
                    raise
            time.sleep(random.random() * 2 ** (attempt - 1))
            attempt += 1


class _Volumes:
    """Unity Catalog volumes, through the Files API."""

    def __init__(self, client: Any) -> None:
        self._files = client.files
        self._client = client.api_client
        self.remove = client.files.delete
        self.make_directory = client.files.create_directory
        self.remove_directory = client.files.delete_directory

    def file_info(self, path: str) -> dict[str, Any]:
        refusals = require("databricks.sdk").errors
        try:
            found = self._files.get_metadata(path)
        except (refusals.PermissionDenied, refusals.Unauthenticated):
            self.read(path, 0, 1)  # only the response to a GET gives the reason
            raise
        info = _described(path, found.content_length, False)
        return {**info, "last_modified": found.last_modified}

    def entries(self, path: str) -> Iterator[dict[str, Any]]:
        for entry in self._files.list_directory_contents(path):
            yield _described(entry.path or "", entry.file_size, bool(entry.is_directory))

    def reader(self, path: str) -> BinaryIO:
        contents: BinaryIO = self._files.download(path).contents
        return contents

    def read(self, path: str, start: int, stop: int) -> bytes:
        # The SDK's own methods read whole files.
        url, headers = f"/api/2.0/fs/files{quote(path)}", {"Range": f"bytes={start}-{stop - 1}"}
        with self._client.do("GET", url, headers=headers, raw=True)["contents"] as source:
            return bytes(source.read())

    def upload(self, path: str, value: bytes) -> None:
        self._files.upload(path, io.BytesIO(value), overwrite=True)


class _Dbfs:
    """The workspace's file system, through the DBFS API: its paths do not begin with ``/dbfs``."""

    def __init__(self, client: Any) -> None:
        self._dbfs = client.dbfs

    def file_info(self, path: str) -> dict[str, Any]:
        found = self._dbfs.get_status(_unmounted(path))
        info = _described(path, found.file_size, bool(found.is_dir))
        return {**info, "last_modified": found.modification_time}

    def entries(self, path: str) -> Iterator[dict[str, Any]]:
        for entry in self._dbfs.list(_unmounted(path)):
            yield _described(f"/dbfs{entry.path}", entry.file_size, bool(entry.is_dir))

    def reader(self, path: str) -> BinaryIO:
        source: BinaryIO = self._dbfs.download(_unmounted(path))
        return source

    def read(self, path: str, start: int, stop: int) -> bytes:
        content = b""
        for offset in range(start, stop, _CHUNK):
            size = min(stop - offset, _CHUNK)
            answer = self._dbfs.read(_unmounted(path), offset=offset, length=size)
            content += base64.b64decode(answer.data or "")
        return content

    def upload(self, path: str, value: bytes) -> None:
        self._dbfs.upload(_unmounted(path), io.BytesIO(value), overwrite=True)

    def remove(self, path: str) -> None:
        path = _unmounted(path)
        self._dbfs.get_status(path)  # fails if there is no such file, unlike `delete`
        self._dbfs.delete(path)

    def make_directory(self, path: str) -> None:
        self._dbfs.mkdirs(_unmounted(path))

    def remove_directory(self, path: str) -> None:
        # The SDK's own method only removes directories together with their contents.
        api = require("databricks.sdk").service.files.DbfsAPI
        api.delete(self._dbfs, _unmounted(path), recursive=False)


def _described(path: str, size: int | None, is_directory: bool) -> dict[str, Any]:
    kind = "directory" if is_directory else "file"
    return {"name": path.rstrip("/"), "size": int(size or 0), "type": kind}


def _unmounted(path: str) -> str:
    return path.removeprefix("/dbfs")
