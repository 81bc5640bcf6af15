"""A Databricks workspace on localhost with the Files API and the DBFS API; files are in memory."""

import base64
import json
import threading
from collections.abc import Iterable
from itertools import count
from typing import Any
from urllib.parse import parse_qs, unquote

from tests.kit.servers.http import Server, StartResponse, WSGIEnvironment, respond

TOKEN = "dapi-secret-token"
_HEADERS = (
    ("Content-Type", "application/octet-stream"),
    ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT"),
)


class Workspace:
    """The WSGI application, in which directories exist once they are created or contain files."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.directories: set[str] = set()
        self._lock = threading.Lock()
        self._handles: dict[int, tuple[str, bytearray]] = {}
        self._numbers = count(1)

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], unquote(environ["PATH_INFO"])
        is_chunked = environ.get("HTTP_TRANSFER_ENCODING") == "chunked"
        length = -1 if is_chunked else int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        query = {k: v[0] for k, v in parse_qs(environ.get("QUERY_STRING", "")).items()}
        with self._lock:
            if environ.get("HTTP_AUTHORIZATION") != f"Bearer {TOKEN}":
                answer = _error("403 Forbidden", "PERMISSION_DENIED", "Invalid access token.")
            elif path.startswith("/api/2.0/fs/files/"):
                asked = environ.get("HTTP_RANGE", "")
                answer = self._file(method, path.removeprefix("/api/2.0/fs/files"), body, asked)
            elif path.startswith("/api/2.0/fs/directories/"):
                answer = self._directory(method, path.removeprefix("/api/2.0/fs/directories"))
            elif path.startswith("/api/2.0/dbfs/"):
                arguments = {**query, **(json.loads(body) if body else {})}
                answer = self._dbfs(path.rpartition("/")[2], arguments)
            else:
                answer = _error("404 Not Found", "ENDPOINT_NOT_FOUND", f"no {path}")
        return answer(environ, start)

    def _file(self, method: str, path: str, body: bytes, asked: str) -> Any:
        if not path.startswith("/Volumes/main/"):
            return _error("404 Not Found", "NOT_FOUND", "Volume does not exist.")
        if method == "PUT":
            self.files[path] = body
        elif path not in self.files:
            return _error("404 Not Found", "NOT_FOUND", "The file being accessed is not found.")
        elif method == "DELETE":
            del self.files[path]
        elif asked:
            first, last = map(int, asked.removeprefix("bytes=").split("-"))
            return respond("206 Partial Content", self.files[path][first : last + 1], *_HEADERS)
        else:
            return respond("200 OK", self.files[path], *_HEADERS)
        return respond("204 No Content")

    def _directory(self, method: str, path: str) -> Any:
        path = path.rstrip("/")
        found = self._children(path)
        if method == "PUT":
            parts = path.split("/")
            self.directories.update("/".join(parts[:n]) for n in range(2, len(parts) + 1))
            return respond("204 No Content")
        if not found and path not in self.directories:
            return _error("404 Not Found", "NOT_FOUND", "The directory is not found.")
        if method == "DELETE":
            if found:
                return _error("400 Bad Request", "DIRECTORY_NOT_EMPTY", "not empty")
            self.directories.discard(path)
            return respond("204 No Content")
        if method == "HEAD":
            return respond("200 OK")
        contents = []
        for name, size in found.items():
            kept = {} if size is None else {"file_size": size, "last_modified": 1}
            contents.append({"path": name, "is_directory": size is None, **kept})
        return _json({"contents": contents})

    def _dbfs(self, operation: str, arguments: dict[str, Any]) -> Any:
        path = str(arguments.get("path", "")).rstrip("/") or "/"
        if operation == "create":
            handle = next(self._numbers)
            self._handles[handle] = (path, bytearray())
            return _json({"handle": handle})
        if operation in ("add-block", "close", "mkdirs"):
            if operation == "mkdirs":
                self.directories.add(path)
            elif operation == "add-block":
                self._handles[arguments["handle"]][1].extend(base64.b64decode(arguments["data"]))
            else:
                path, content = self._handles.pop(arguments["handle"])
                self.files[path] = bytes(content)
            return _json({})
        found = self._children(path)
        is_file = path in self.files
        if not (is_file or found or path in self.directories):
            return _error("404 Not Found", "RESOURCE_DOES_NOT_EXIST", f"No file {path} exists.")
        if operation == "get-status":
            return _json(self._status(path))
        if operation == "list":
            names = [path] if is_file else list(found)
            return _json({"files": [self._status(name) for name in names]})
        if operation == "read":
            offset = int(arguments["offset"])
            block = self.files[path][offset : offset + int(arguments["length"])]
            return _json({"bytes_read": len(block), "data": base64.b64encode(block).decode()})
        assert operation == "delete", operation
        self.files.pop(path, None)
        self.directories.discard(path)
        return _json({})

    def _status(self, path: str) -> dict[str, Any]:
        content = self.files.get(path)
        size = {"file_size": len(content or b""), "modification_time": 1}
        return {"path": path, "is_dir": content is None, **size}

    def _children(self, path: str) -> dict[str, int | None]:
        """Return a directory's contents: sizes for files, None for directories."""
        prefix = path.rstrip("/") + "/"
        found: dict[str, int | None] = {}
        for name in sorted([*self.files, *self.directories]):
            if name.startswith(prefix):
                first, slash, _ = name[len(prefix) :].partition("/")
                child = prefix + first
                is_file = not slash and name in self.files
                found[child] = len(self.files[name]) if is_file else found.get(child)
        return found


def _json(value: Any) -> Any:
    return respond("200 OK", json.dumps(value).encode(), ("Content-Type", "application/json"))


def _error(status: str, code: str, message: str) -> Any:
    body = json.dumps({"error_code": code, "message": message}).encode()
    return respond(status, body, ("Content-Type", "application/json"))


class DatabricksServer(Server):
    """The workspace on a localhost port."""

    def __init__(self) -> None:
        self.workspace = Workspace()
        super().__init__(self.workspace)

    def reset(self) -> None:
        super().reset()
        self.workspace.files.clear()
        self.workspace.directories.clear()
