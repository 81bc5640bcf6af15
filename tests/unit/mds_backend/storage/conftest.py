"""Servers that emulate the stores, each started once, and their client options."""

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.kit.servers.azure import AzureServer
from tests.kit.servers.databricks import TOKEN, DatabricksServer
from tests.kit.servers.gcs import GoogleServer
from tests.kit.servers.s3 import S3Server
from tests.kit.servers.stores import LOCAL, started, with_credentials
from tests.unit.mds_backend.cache.shards import without_pauses

from mdstorm_backend.storage import Location, renewing
from mdstorm_backend.storage import credentials as renewal
from mdstorm_backend.storage.databricks_files import DatabricksFileSystem
from mdstorm_backend.storage.stores.store import STORES

#: Prefixes of environment variables that may contain the user's own credentials.
_FOREIGN = ("AWS_", "AZURE_", "DATABRICKS_", "GCS_", "GOOGLE_", "MOSAICML_", "S3_")


@pytest.fixture(autouse=True)
def default_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "default cache"))
    without_pauses(monkeypatch)


started_s3 = started("s3fs", lambda _: S3Server())
started_azure = started("adlfs", lambda folders: AzureServer(folders.mktemp("azurite")))
started_gs = started("gcsfs", lambda folders: GoogleServer(folders.mktemp("google")))
started_databricks = started("databricks.sdk", lambda _: DatabricksServer())


def forget_filesystems() -> None:
    """Drop file systems and leases from other tests, along with their credentials."""
    renewal.lessees.clear()
    renewing.opened_filesystems.clear()
    for scheme in STORES:
        with suppress(ImportError, ValueError):
            fsspec.get_filesystem_class(scheme).clear_instance_cache()
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


#: Local stores and their URLs, by the name of the fixture, or by the scheme for further URLs.
_STORES = {local.fixture: (local, local.urls[0]) for local in LOCAL}
_SECOND = {url.partition(":")[0]: (local, url) for local in LOCAL for url in local.urls[1:]}


@pytest.fixture(
    params=[*_STORES, "memory", *(pytest.param(k, marks=pytest.mark.long) for k in _SECOND)]
)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Each store in turn, with an empty directory of this test."""
    if request.param == "memory":
        store = Store(f"memory://{uuid.uuid4().hex}/numbers")
    else:
        local, url = {**_STORES, **_SECOND}[request.param]
        url = f"{url}/{uuid.uuid4().hex}"
        store = Store(url, local.options(request.getfixturevalue(local.fixture)))
    yield store
    for name in store.location.list_names():
        store.location.remove(name)
    fsspec.filesystem("memory").store.clear()
