"""The servers of the storages and of the catalog, for entries of users."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.storage.conftest import (  # noqa: F401
    default_cache,
    fresh_filesystems,
    no_credentials,
    s3,
    s3_without_keys,
    started_s3,
)
from tests.servers.s3 import BUCKET, S3Server
from tests.servers.unity import TOKEN, UnityServer
from tests.servers.vending import GuardedS3

from mdstorm_backend.storage import Location
from mdstorm_backend.storage import credentials as renewal


@dataclass
class Catalog:
    """Unity Catalog on localhost, whose tables are on an S3 that accepts its tokens alone."""

    unity: UnityServer
    guard: GuardedS3
    behind: S3Server

    def put(self, name: str, folder: Path, format_: str = "DELTA", **more: Any) -> str:
        """Upload a directory and register it as a table; return its URL."""
        prefix = f"tables/{name}"
        url = f"s3://{BUCKET}/{prefix}"
        location = Location.of(url, {"endpoint_url": self.behind.url, **_KEYS})
        for path in folder.rglob("*"):
            if path.is_file():
                location.write(str(path.relative_to(folder)), [path.read_bytes()])
        self.unity.add(name, url, format_, **more)
        return url


_KEYS = {"key": "testing", "secret": "testing-secret"}


@pytest.fixture(scope="session")
def started_catalog(started_s3: S3Server) -> Iterator[Catalog]:  # noqa: F811
    pytest.importorskip("databricks.sdk")
    with closing(GuardedS3(started_s3)) as guard:

        def vend(prefix: str, seconds: float) -> dict[str, Any]:
            token = guard.hand_out(prefix, seconds)
            keys = {"access_key_id": token.key, "secret_access_key": token.secret}
            return {"aws_temp_credentials": {**keys, "session_token": token.session}}

        with closing(UnityServer(vend)) as unity:
            yield Catalog(unity, guard, started_s3)


@pytest.fixture
def catalog(
    started_catalog: Catalog,
    no_credentials: None,  # noqa: F811
    fresh_filesystems: None,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Catalog]:
    """An empty catalog, with the only variables that tables by name need."""
    found = started_catalog
    monkeypatch.setattr(renewal, "_lessees", {})
    monkeypatch.setenv("DATABRICKS_HOST", found.unity.url)
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_ENDPOINT_URL", found.guard.url)
    yield found
    found.unity.reset()
    found.guard.reset()
