"""A Databricks workspace with Unity Catalog, which serves tables and temporary credentials.

It responds like the REST API to ``tables.get``, ``temporary-table-credentials`` and the Iceberg
REST catalog; the credentials are tokens for `GuardedS3`. It also serves the files in a `Workspace`.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs, unquote

import psutil
from tests.kit.servers import databricks
from tests.kit.servers.http import Server, StartResponse, WSGIEnvironment, respond

TOKEN = databricks.TOKEN
READABLE = "HAS_DIRECT_EXTERNAL_ENGINE_READ_SUPPORT"
_API = "/api/2.1/unity-catalog/"
_VENDED = "/api/2.0/unity-catalog/temporary-table-credentials"
_FILES = ("/api/2.0/fs/", "/api/2.0/dbfs/")
_ICEBERG = "/api/2.1/unity-catalog/iceberg-rest/v1/"
#: A function that creates credentials for a prefix and a lifetime in seconds.
Vend = Callable[[str, float], dict[str, Any]]


class UnityServer(Server):
    """The workspace's server.

    Attributes
    ----------
    tables : dict of str to dict
        The responses to ``tables.get``, by full name.
    metadata : dict of str to str
        The metadata file of each Iceberg table, by full name.
    config : dict of str to str
        File system properties of Iceberg tables, without credentials.
    vended_config : dict of str to str
        Properties that are returned only together with an Iceberg table's credentials.
    lifetime : float
        Lifetime of the credentials in seconds.
    skew : float
        How far the catalog's clock is ahead, in seconds.
    refusal : (str, str, str) or None
        Status, code and message with which credentials are refused.
    fails : str or None
        Status of the response to every request.
    asked : Counter
        Requests for credentials by table id, or by full name for Iceberg.
    by_process : dict of int to list of float
        When each process requested credentials.
    files : Workspace
        Volumes and the workspace's file system.
    """

    def __init__(self, vend: Vend) -> None:
        self.vend = vend
        self.clear()
        super().__init__(self._application)

    def clear(self) -> None:
        self.tables: dict[str, dict[str, Any]] = {}
        self.metadata: dict[str, str] = {}
        self.config = {"s3.region": "us-east-1"}
        self.vended_config: dict[str, str] = {}
        self.lifetime, self.skew = 3600.0, 0.0
        self.refusal: tuple[str, str, str] | None = None
        self.fails: str | None = None
        self.asked: Counter[str] = Counter()
        self.by_process: defaultdict[int, list[float]] = defaultdict(list)
        self.files = databricks.Workspace()

    def reset(self) -> None:
        super().reset()
        self.clear()

    def add(self, name: str, location: str | None, format_: str = "DELTA", **more: Any) -> None:
        """Register a table."""
        catalog, schema, table = name.split(".")
        self.tables[name] = {
            "name": table,
            "catalog_name": catalog,
            "schema_name": schema,
            "full_name": name,
            "table_id": f"id-of-{name}",
            "table_type": "MANAGED",
            "data_source_format": format_,
            **({"storage_location": location} if location else {}),
            "securable_kind_manifest": {"capabilities": [READABLE]},
            **more,
        }

    def _application(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = unquote(environ["PATH_INFO"])
        if path.startswith(_FILES):
            return self.files(environ, start)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        query = {k: v[0] for k, v in parse_qs(environ.get("QUERY_STRING", "")).items()}
        if self.fails is not None:
            answer = _error(self.fails, "TEMPORARILY_UNAVAILABLE", "come back later")
        elif path.startswith("/.well-known/"):
            answer = _error("404 Not Found", "ENDPOINT_NOT_FOUND", f"no {path}")
        elif environ.get("HTTP_AUTHORIZATION") != f"Bearer {TOKEN}":
            answer = _error("401 Unauthorized", "UNAUTHENTICATED", "Invalid access token.")
        elif path.startswith(_ICEBERG):
            answer = self._iceberg(path.removeprefix(_ICEBERG), environ)
        elif path == _VENDED:
            ports = int(environ["REMOTE_PORT"]), int(environ["SERVER_PORT"])
            self.by_process[_process_between(*ports)].append(time.time())
            answer = self._credentials(json.loads(body))
        elif path.startswith(f"{_API}tables/"):
            answer = self._table(path.removeprefix(f"{_API}tables/"), query)
        elif path.startswith(_API):
            answer = self._names(path.removeprefix(_API), query)
        else:
            answer = _error("404 Not Found", "ENDPOINT_NOT_FOUND", f"no {path}")
        return answer(environ, start)

    def _table(self, name: str, query: dict[str, str]) -> Any:
        found = self.tables.get(name)
        if found is None:
            return _error(
                "404 Not Found", "TABLE_DOES_NOT_EXIST", f"Table '{name}' does not exist."
            )
        if found.get("hidden"):
            return _error("403 Forbidden", "PERMISSION_DENIED", "User does not have USE SCHEMA")
        asks = query.get("include_manifest_capabilities") == "true"
        return _json({k: v for k, v in found.items() if asks or k != "securable_kind_manifest"})

    def _names(self, what: str, query: dict[str, str]) -> Any:
        names = [name.split(".") for name in self.tables]
        of = [query[key] for key in ("catalog_name", "schema_name") if key in query]
        found = sorted({name[len(of)] for name in names if name[: len(of)] == of})
        if of and not found:
            return _error("404 Not Found", "NOT_FOUND", f"no {of}")
        return _json({what: [{"name": name} for name in found]})

    def _credentials(self, wanted: dict[str, str]) -> Any:
        assert wanted["operation"] == "READ"
        self.asked[wanted["table_id"]] += 1
        if self.refusal is not None:
            return _error(*self.refusal)
        table = next(t for t in self.tables.values() if t["table_id"] == wanted["table_id"])
        expires = int(1000 * (time.time() + self.lifetime + self.skew))
        prefix = table["storage_location"].partition("://")[2].partition("/")[2] + "/"
        vended = self.vend(prefix, self.lifetime)
        return _json({**vended, "expiration_time": expires, "url": table["storage_location"]})

    def _iceberg(self, path: str, environ: WSGIEnvironment) -> Any:
        if path == "config":
            return _json({"defaults": {}, "overrides": {"prefix": "catalogs/main"}})
        _, catalog, _, schema, _, table = path.split("/")
        name = f"{catalog}.{schema}.{table}"
        metadata = self.metadata[name]
        found: dict[str, Any] = {"metadata-location": metadata, "metadata": {}}
        if "HTTP_X_ICEBERG_ACCESS_DELEGATION" not in environ:
            return _json({**found, "config": self.config})
        assert environ["HTTP_X_ICEBERG_ACCESS_DELEGATION"] == "vended-credentials"
        self.asked[name] += 1
        if self.refusal is not None:
            return _error(*self.refusal)
        prefix = metadata.partition("://")[2].partition("/")[2].rpartition("/metadata/")[0] + "/"
        vended = self.vend(prefix, self.lifetime)["aws_temp_credentials"]
        config = {
            "s3.access-key-id": vended["access_key_id"],
            "s3.secret-access-key": vended["secret_access_key"],
            "s3.session-token": vended["session_token"],
            "s3.session-token-expires-at-ms": str(int(1000 * (time.time() + self.lifetime))),
            **self.vended_config,
        }
        wrong = {**config, "s3.session-token": "of another table"}
        table = metadata.rpartition("/metadata/")[0]
        listed = [(metadata.partition("/tables/")[0], wrong), (f"{table}/", config), ("gs", wrong)]
        vended = [{"prefix": prefix, "config": config} for prefix, config in listed]
        return _json({**found, "config": self.config, "storage-credentials": vended})


def _process_between(client: int, server: int) -> int:
    """Return the process that owns the connection from the client's port to the server's port."""
    found = psutil.net_connections("tcp4")
    pids = {
        one.pid
        for one in found
        if one.pid and one.raddr and (one.laddr.port, one.raddr.port) == (client, server)
    }
    (process,) = pids
    return int(process)


def _json(value: Any) -> Any:
    return respond("200 OK", json.dumps(value).encode(), ("Content-Type", "application/json"))


def _error(status: str, code: str, message: str) -> Any:
    body = json.dumps({"error_code": code, "message": message}).encode()
    return respond(status, body, ("Content-Type", "application/json"))
