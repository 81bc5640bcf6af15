"""An Iceberg REST catalog that issues credentials for `GuardedS3` to pyiceberg's client."""

import json
import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from tests.kit.servers.http import Server, StartResponse, WSGIEnvironment, respond
from tests.kit.servers.vending import GuardedS3

TOKEN = "rest-secret-of-catalog"
_TABLE = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}"
_ENDPOINTS = [_TABLE, f"{_TABLE}/credentials"]


class RestCatalogServer(Server):
    """The REST catalog server.

    Attributes
    ----------
    tables : dict of str to (str, dict)
        The metadata file's URL and content, by namespace and name.
    config : dict of str to str
        File system properties of each table, without credentials.
    lifetime : float
        Lifetime of the credentials in seconds.
    by_prefix : bool
        Whether credentials are listed by prefix, after those for other prefixes; otherwise they are
        in the table's configuration.
    """

    def __init__(self, guard: GuardedS3) -> None:
        self._guard = guard
        self.tables: dict[str, tuple[str, dict[str, Any]]] = {}
        self.config = {"client.region": "us-east-1", "s3.endpoint": guard.url}
        self.lifetime, self.by_prefix = 3600.0, True
        super().__init__(self._application)

    def _application(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = unquote(environ["PATH_INFO"]).removeprefix("/v1/").split("/")
        if environ.get("HTTP_AUTHORIZATION") != f"Bearer {TOKEN}":
            return _error("401 Unauthorized", "NotAuthorizedException")(environ, start)
        if path == ["config"]:
            return _json({"defaults": {}, "overrides": {}, "endpoints": _ENDPOINTS})(environ, start)
        name = f"{path[1]}.{path[3]}"
        if name not in self.tables:
            return _error("404 Not Found", "NoSuchTableException")(environ, start)
        assert environ["HTTP_X_ICEBERG_ACCESS_DELEGATION"] == "vended-credentials"
        url, metadata = self.tables[name]
        listed = self._credentials(url)
        if path[-1] == "credentials":
            return _json({"storage-credentials": listed})(environ, start)
        config = self.config
        if not self.by_prefix:
            config, listed = {**config, **listed[1]["config"]}, []
        answer = {"metadata-location": url, "metadata": metadata, "config": config}
        return _json({**answer, "storage-credentials": listed})(environ, start)

    def _credentials(self, url: str) -> list[dict[str, Any]]:
        table = url.rpartition("/metadata/")[0] + "/"
        token = self._guard.hand_out(table.split("/", 3)[3], self.lifetime)
        config = {
            "s3.access-key-id": token.key,
            "s3.secret-access-key": token.secret,
            "s3.session-token": token.session,
            "s3.session-token-expires-at-ms": str(int(1000 * (time.time() + self.lifetime))),
        }
        other = {**config, "s3.session-token": "of another table"}
        return [{"prefix": "s3://", "config": other}, {"prefix": table, "config": config}]


def _json(value: Any, status: str = "200 OK") -> Any:
    return respond(status, json.dumps(value).encode(), ("Content-Type", "application/json"))


def _error(status: str, kind: str) -> Any:
    error = {"message": "no", "type": kind, "code": int(status[:3])}
    return _json({"error": error}, status)
