"""Missing, wrong and insufficient credentials are named with what to set; secrets never show."""

import base64
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.servers.azure import ACCOUNT, CONTAINER, AzureServer
from tests.servers.databricks import TOKEN, DatabricksServer
from tests.servers.gcs import TOKEN as GOOGLE_TOKEN
from tests.servers.gcs import GoogleServer
from tests.servers.s3 import BUCKET, S3Server

from mdstorm_backend import errors
from mdstorm_backend.cache import CacheOptions, read_index, shard_files
from mdstorm_backend.datasets.dataset import open_dataset
from mdstorm_backend.spark import check_driver_writes
from mdstorm_backend.storage import Location
from mdstorm_backend.write.commit import mark_directory

SECRETS = "testing-secret", TOKEN, GOOGLE_TOKEN, "wrong-secret", "client-secret"


@pytest.fixture(autouse=True)
def nothing_secret_is_logged(
    fresh_filesystems: None, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG, logger="mdstorm_backend"):
        yield
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("mdstorm")]
    assert not any(secret in text for text in ours for secret in SECRETS)


def every_way_in(location: Location) -> list[Callable[[], Any]]:
    """Reading, describing, listing and writing, each of which asks the storage first."""
    return [
        lambda: location.read("index.json"),
        lambda: location.stat("index.json"),
        lambda: location.exists("index.json"),
        location.list_sizes,
        lambda: location.write("x", [b"1"]),
        lambda: location.remove("x"),
        lambda: read_index(location, CacheOptions(retry=1)),
    ]


def refused(location: Location, *texts: str) -> None:
    """Check that the storage lets nobody in, and what the errors say."""
    for ask in every_way_in(location):
        with pytest.raises(errors.CredentialsError) as caught:
            ask()
        assert isinstance(caught.value, PermissionError)
        shown = "".join(traceback.format_exception(caught.value))
        for text in (*texts, "other machines) need them too"):
            assert text in str(caught.value)
        assert not any(secret in shown for secret in SECRETS)
        assert "\n" not in str(caught.value)
    with pytest.raises(errors.WriteError, match=r"cannot be written to.*workers .*need them too"):
        mark_directory(location)


def test_s3_without_credentials(s3_without_keys: S3Server) -> None:
    location = Location.of(f"s3://{BUCKET}/x", {"endpoint_url": s3_without_keys.url})
    to_set = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    refused(location, "S3 (s3:) gives no access", "set: none", to_set)
    # A driver raises this error alone, before it asks executors, whose errors have traces of Java.
    with pytest.raises(errors.CredentialsError, match=r"S3 \(s3:\) gives no access") as caught:
        check_driver_writes(location)
    assert "direct cause" not in "".join(traceback.format_exception(caught.value))


def test_azure_without_credentials(azure: AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    location = Location.of(f"az://{CONTAINER}/x")
    with pytest.raises(errors.CredentialsError, match="Set AZURE_STORAGE_ACCOUNT_NAME and AZURE"):
        location.read("index.json")


def test_azure_with_a_wrong_key(azure: AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    key = base64.b64encode(b"wrong-secret").decode()
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azure.connection_string(key))
    location = Location.of(f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/x")
    found = "set: AZURE_STORAGE_CONNECTION_STRING)"
    refused(location, "Azure storage (abfss:) gives no access", found)
    # What is set after that lets us in.
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azure.connection_string())
    assert location.list_names() == []


@pytest.mark.parametrize("found", ["GOOGLE_APPLICATION_CREDENTIALS", "none"])
def test_google_without_rights(
    found: str, gs: GoogleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gs.token = "wrong-secret"
    if found == "none":
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    location = Location.of(f"gs://{BUCKET}/x")
    refused(location, "Google Cloud Storage (gs:) gives no access", f"set: {found})")
    gs.token = GOOGLE_TOKEN
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(gs.key_file))
    assert location.list_names() == []


DATABRICKS_URLS = pytest.mark.parametrize(
    "url", ["dbfs:/Volumes/main/default/volume/x", "/Volumes/main/default/volume/x", "dbfs:/x"]
)


@DATABRICKS_URLS
def test_databricks_without_credentials(url: str, no_credentials: None) -> None:
    why = "is not mounted here, and the Databricks workspace gives no access"
    refused(Location.of(url), why, "set: none", "Set DATABRICKS_HOST and DATABRICKS_TOKEN")


@DATABRICKS_URLS
def test_databricks_with_a_wrong_token(
    url: str, databricks: DatabricksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_TOKEN", "wrong-secret")
    refused(Location.of(url), "set: DATABRICKS_HOST, DATABRICKS_TOKEN)")
    # Credentials are those of the moment.
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
    assert Location.of(url).list_names() == []


def test_two_ways_into_databricks_are_refused(
    databricks: DatabricksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_CLIENT_ID", "me")
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", "client-secret")
    location = Location.of("dbfs:/Volumes/main/default/volume/x")
    refused(location, "more than one authorization method", "nothing else or DATABRICKS_AUTH_TYPE")


def test_credentials_may_come_as_options(
    databricks: DatabricksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABRICKS_TOKEN")
    location = Location.of("dbfs:/Volumes/main/default/volume/x", {"token": TOKEN})
    location.write("a", [b"1"])
    assert location.list_names() == ["a"]
    location.remove("a")
    with pytest.raises(errors.InvalidArgumentError, match="their own credentials"):
        pickle.dumps(location)
    assert TOKEN not in repr(location)
    assert TOKEN not in repr(shard_files(location, "f"))


MISSING = {
    "s3": "s3://no-bucket/x",
    "gs": "gs://no-bucket/x",
    "azure": "az://no-bucket/x",
    "databricks": "dbfs:/Volumes/no-bucket/default/volume/x",
}


@pytest.mark.parametrize("server", MISSING)
def test_a_missing_bucket_is_named(server: str, request: pytest.FixtureRequest) -> None:
    found, url = request.getfixturevalue(server), MISSING[server]
    location = Location.of(url, {"endpoint_url": found.url} if server == "s3" else {})
    assert location.list_names() == []
    assert not location.exists("index.json")
    with pytest.raises(errors.DatasetNotFoundError, match=r"no-bucket.*Check the URL"):
        open_dataset(location.url, storage_options=location.storage_options)
    with pytest.raises(FileNotFoundError, match=r"no-bucket/.* does not exist") as caught:
        location.write("x", [b"1"])
    create = f"create {url.removesuffix('/x')}, or check"
    assert server == "databricks" or create in str(caught.value)
    with pytest.raises(errors.WriteError, match="does not exist"):
        mark_directory(location)
