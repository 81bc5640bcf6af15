"""Servers that emulate the stores, each started once, and their client options."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.mds_backend.cache.shards import without_pauses
from tests.servers.azure import ACCOUNT, CONTAINER, AzureServer
from tests.servers.databricks import TOKEN, DatabricksServer
from tests.servers.gcs import GoogleServer
from tests.servers.s3 import BUCKET, S3Server

from mdstorm_backend.storage import Location, renewing
from mdstorm_backend.storage import credentials as renewal
from mdstorm_backend.storage.databricks_files import DatabricksFileSystem

#: Prefixes of environment variables that may contain the user's own credentials.
_FOREIGN = ("AWS_", "AZURE_", "DATABRICKS_", "GCS_", "GOOGLE_", "MOSAICML_", "S3_")


@pytest.fixture(autouse=True)
def default_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "default cache"))
    without_pauses(monkeypatch)


def started(library: str, make: Callable[[pytest.TempPathFactory], Any]) -> Any:
    """Return a fixture that starts a server once, if its client library is installed."""

    @pytest.fixture(scope="session")
    def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
        pytest.importorskip(library)
        with closing(make(tmp_path_factory)) as found:
            yield found

    return server


started_s3 = started("s3fs", lambda _: S3Server())
started_azure = started("adlfs", lambda folders: AzureServer(folders.mktemp("azurite")))
started_gs = started("gcsfs", lambda folders: GoogleServer(folders.mktemp("google")))
started_databricks = started("databricks.sdk", lambda _: DatabricksServer())


def forget_filesystems() -> None:
    """Drop file systems and leases from other tests, along with their credentials."""
    renewal.lessees.clear()
    renewing.opened_filesystems.clear()
    for name in ("s3", "gs", "abfs"):
        with suppress(ImportError):
            fsspec.get_filesystem_class(name).clear_instance_cache()
    DatabricksFileSystem.clear_instance_cache()


@pytest.fixture
def fresh_filesystems() -> Iterator[None]:
    """Drop file systems before and after a test, because they cache hosts and credentials."""
    forget_filesystems()
    yield
    forget_filesystems()


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """An environment and a home directory without credentials."""
    for name in os.environ:
        if name.startswith(_FOREIGN):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    # Otherwise, the S3 client would request this machine's role over the network.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def with_credentials(started: str, variables: Callable[[Any], dict[str, str]]) -> Any:
    """Return a fixture for a running server, with its credentials in the environment."""

    @pytest.fixture
    def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        found = request.getfixturevalue(started)
        request.getfixturevalue("no_credentials")
        for name, value in variables(found).items():
            monkeypatch.setenv(name, value)
        yield found
        found.reset()

    return server


_KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-secret"}
s3_without_keys = with_credentials("started_s3", lambda s3: {"AWS_ENDPOINT_URL": s3.url})
s3 = with_credentials("started_s3", lambda s3: {"AWS_ENDPOINT_URL": s3.url, **_KEYS})
azure = with_credentials(
    "started_azure", lambda azure: {"AZURE_STORAGE_CONNECTION_STRING": azure.connection_string()}
)
gs = with_credentials(
    "started_gs",
    lambda gs: {"STORAGE_EMULATOR_HOST": gs.url, "GOOGLE_APPLICATION_CREDENTIALS": gs.key_file},
)
databricks = with_credentials(
    "started_databricks", lambda server: {"DATABRICKS_HOST": server.url, "DATABRICKS_TOKEN": TOKEN}
)


@dataclass
class Store:
    """A store under test, with the URL of a directory in the store and its client options."""

    url: str
    storage_options: dict[str, Any] = field(default_factory=dict)

    @property
    def location(self) -> Location:
        return Location.of(self.url, self.storage_options)


#: For each store, the server fixture and a directory in the store.
_STORES = {
    "s3": ("s3", f"s3://{BUCKET}/data/numbers"),
    "gs": ("gs", f"gs://{BUCKET}/data/numbers"),
    "abfss": ("azure", f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/data/numbers"),
    "volume": ("databricks", "dbfs:/Volumes/main/default/volume/numbers"),
    "memory": ("", "memory://data/numbers"),
}
#: The same stores with other URL schemes.
_SECOND = {
    "az": ("azure", f"az://{CONTAINER}/data/other"),
    "dbfs": ("databricks", "dbfs:/data/numbers"),
}


@pytest.fixture(params=[*_STORES, *(pytest.param(k, marks=pytest.mark.long) for k in _SECOND)])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Each store in turn, empty before and after the test."""
    server, url = {**_STORES, **_SECOND}[request.param]
    found = request.getfixturevalue(server) if server else None
    # Pass the endpoint as an option, because s3fs versions read it from different variables.
    store = Store(url, {"endpoint_url": found.url} if server == "s3" else {})
    yield store
    for name in store.location.list_names():
        store.location.remove(name)
    fsspec.filesystem("memory").store.clear()
