"""A catalog server and the storage server for its tables, started together."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kit.servers.s3 import BUCKET, S3Server
from tests.kit.servers.unity import UnityServer
from tests.kit.servers.vending import GuardedS3

from mdstorm_backend.storage import Location

_KEYS = {"key": "testing", "secret": "testing-secret"}


@dataclass
class Catalog:
    """Unity Catalog on localhost, with tables in an S3 store that accepts only tokens from it."""

    unity: UnityServer
    guard: GuardedS3
    behind: S3Server

    def put(self, name: str, folder: Path, format_: str = "DELTA", **more: Any) -> str:
        """Upload a directory, register it as a table, and return the table's URL."""
        prefix = f"tables/{name}"
        url = f"s3://{BUCKET}/{prefix}"
        location = Location.of(url, {"endpoint_url": self.behind.url, **_KEYS})
        for path in folder.rglob("*"):
            if path.is_file():
                location.write(str(path.relative_to(folder)), [path.read_bytes()])
        self.unity.add(name, url, format_, **more)
        return url


@contextmanager
def catalog_on(behind: S3Server) -> Iterator[Catalog]:
    """Start an empty catalog, and close it at the end of the block."""
    with closing(GuardedS3(behind)) as guard:

        def vend(prefix: str, seconds: float) -> dict[str, Any]:
            token = guard.hand_out(prefix, seconds)
            keys = {"access_key_id": token.key, "secret_access_key": token.secret}
            return {"aws_temp_credentials": {**keys, "session_token": token.session}}

        with closing(UnityServer(vend)) as unity:
            yield Catalog(unity, guard, behind)
