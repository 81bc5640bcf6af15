"""Errors about missing credentials show no secrets; stores read environment variables."""

import base64
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator

import pytest
from tests.kit.servers.azure import ACCOUNT, CONTAINER, AzureServer
from tests.kit.servers.databricks import TOKEN, DatabricksServer
from tests.kit.servers.gcs import TOKEN as GOOGLE_TOKEN
from tests.kit.servers.gcs import GoogleServer
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.kit.small_datasets import write_ints

from mdstorm_backend import errors, open_dataset
from mdstorm_backend.cache import CacheOptions, read_index, shard_files
from mdstorm_backend.spark import check_driver_writes
from mdstorm_backend.storage import Location, open_filesystem, urls
from mdstorm_backend.storage.stores import google
from mdstorm_backend.write.job_files import mark_directory

SECRETS = "testing-secret", TOKEN, GOOGLE_TOKEN, "wrong-secret", "client-secret"
KEY = "c29tZSBzZWNyZXQgdGhhdCBubyBvbmUga25vd3M="


@pytest.fixture(autouse=True)
def nothing_secret_is_logged(
    fresh_filesystems: None, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG, logger="mdstorm_backend"):
        yield
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("mdstorm")]
    assert not any(secret in text for text in ours for secret in SECRETS)


def refused(location: Location, *texts: str) -> None:
    """Check that the store denies access, and that its errors contain the given strings."""
    every_way_in: list[Callable[[], object]] = [
        lambda: location.read("index.json"),
        lambda: location.stat("index.json"),
        lambda: location.exists("index.json"),
        location.list_sizes,
        lambda: location.write("x", [b"1"]),
        lambda: location.remove("x"),
        lambda: read_index(location, CacheOptions(retry=1)),
    ]
    for ask in every_way_in:
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


def test_s3_without_credentials_raises_error_with_the_fix(s3_without_keys: S3Server) -> None:
    location = Location.of(f"s3://{BUCKET}/x", {"endpoint_url": s3_without_keys.url})
    to_set = "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    refused(location, "S3 (s3:) gives no access", "set: none", to_set)
    # The driver raises this error itself, before it runs a job whose errors would have Java traces.
    with pytest.raises(errors.CredentialsError, match=r"S3 \(s3:\) gives no access") as caught:
        check_driver_writes(location)
    assert "direct cause" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.long
def test_azure_with_missing_or_wrong_key_raises_error_with_the_fix(
    azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    with pytest.raises(errors.CredentialsError, match="Set AZURE_STORAGE_ACCOUNT_NAME and AZURE"):
        Location.of(f"az://{CONTAINER}/x").read("index.json")
    key = base64.b64encode(b"wrong-secret").decode()
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azure.connection_string(key))
    location = Location.of(f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/x")
    found = "set: AZURE_STORAGE_CONNECTION_STRING)"
    refused(location, "Azure storage (abfss:) gives no access", found)
    # Credentials that are set later grant access.
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azure.connection_string())
    assert location.list_names() == []


@pytest.mark.long
@pytest.mark.parametrize("found", ["GOOGLE_APPLICATION_CREDENTIALS", "none"])
def test_google_without_permissions_raises_error_with_the_fix(
    found: str, gs: GoogleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gs.token = "wrong-secret"
    if found == "none":
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    location = Location.of(f"gs://{BUCKET}/x")
    refused(location, "Google Cloud Storage (gs:) gives no access", f"set: {found})")
    gs.token = GOOGLE_TOKEN
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", gs.key_file)
    assert location.list_names() == []


DATABRICKS_URLS = pytest.mark.parametrize(
    "url", ["dbfs:/Volumes/main/default/volume/x", "/Volumes/main/default/volume/x", "dbfs:/x"]
)


@DATABRICKS_URLS
def test_databricks_without_credentials_raises_error_with_the_fix(
    url: str, no_credentials: None
) -> None:
    why = "is not mounted here, and the Databricks workspace gives no access"
    refused(
        Location.of(url),
        why,
        "no credentials are set",
        "set: none",
        "Set DATABRICKS_HOST and DATABRICKS_TOKEN",
    )


@DATABRICKS_URLS
def test_databricks_with_a_wrong_token_raises_error_with_the_fix(
    url: str, databricks: DatabricksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_TOKEN", "wrong-secret")
    # HEAD requests, whose answers have no text, are repeated for the reason.
    refused(Location.of(url), "set: DATABRICKS_HOST, DATABRICKS_TOKEN)", "Invalid access token")
    # Credentials are read at request time.
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
    assert Location.of(url).list_names() == []


def test_two_authorization_methods_for_databricks_raise_error(
    databricks: DatabricksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_CLIENT_ID", "me")
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", "client-secret")
    location = Location.of("dbfs:/Volumes/main/default/volume/x")
    refused(location, "more than one authorization method", "nothing else or DATABRICKS_AUTH_TYPE")


def test_credentials_in_storage_options_are_used_but_not_pickled(
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("s3", "s3://no-bucket/x"),
        ("gs", "gs://no-bucket/x"),
        ("azure", "az://no-bucket/x"),
        ("databricks", "dbfs:/Volumes/no-bucket/default/volume/x"),
    ],
)
def test_missing_bucket_raises_error_naming_the_bucket(
    server: str, url: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(server)
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


@pytest.fixture
def any_host(no_credentials: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow file systems on hosts that do not exist."""
    monkeypatch.setattr(urls, "check_reachable", lambda filesystem: None)


def test_storage_options_override_the_environment(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("S3_ENDPOINT_URL", "http://127.0.0.1:9")
    given = {"endpoint_url": s3.url}
    for options in (given, {"client_kwargs": given}):
        location = Location.of(f"s3://{BUCKET}/given", options)
        location.write("x", [b"1"])
        assert location.read("x") == b"1"


def test_canned_acl_applies_to_every_object(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3_ENDPOINT_URL", s3.url)
    monkeypatch.setenv("S3_CANNED_ACL", "public-read")
    write_ints(f"s3://{BUCKET}/acl")
    for name in ("index.json", "shard.00000.mds"):
        assert s3.request("GET", f"/{BUCKET}/acl/{name}")


def test_requester_pays_is_set_only_for_the_listed_buckets(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAICML_STREAMING_AWS_REQUESTER_PAYS", "other, paid")
    paid = [bool(open_filesystem(f"s3://{bucket}/x", {})[0].req_kw) for bucket in ("paid", BUCKET)]
    assert paid == [True, False]
    assert not open_filesystem("s3://paid/x", {"requester_pays": False})[0].req_kw


@pytest.mark.long
def test_google_storage_is_accessed_as_s3_if_gcs_key_and_gcs_secret_are_set(
    s3_without_keys: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = s3_without_keys
    monkeypatch.setattr(google, "GOOGLE_ENDPOINT", s3.url)
    monkeypatch.setenv("S3_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GCS_KEY", "GOOG-key")
    monkeypatch.setenv("GCS_SECRET", "secret-of-google")
    write_ints(f"gs://{BUCKET}/google")
    assert open_dataset(f"gs://{BUCKET}/google")[0] == {"n": 0}
    assert Location.of(f"gs://{BUCKET}/google").list_names() == ["index.json", "shard.00000.mds"]
    location = Location.of(f"gs://{BUCKET}/google")
    s3.check_credentials(True)
    try:
        with pytest.raises(errors.CredentialsError, match=r"set: GCS_KEY, GCS_SECRET\)") as caught:
            location.read("index.json")
    finally:
        s3.check_credentials(False)
    assert "secret-of-google" not in f"{caught.value}{pickle.dumps(location)!r}"


def test_google_storage_with_storage_options_is_accessed_with_gcsfs(
    any_host: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gcsfs")
    monkeypatch.setenv("GCS_KEY", "GOOG-key")
    monkeypatch.setenv("GCS_SECRET", "secret-of-google")
    fs, path = open_filesystem("gs://bucket/x", {"token": "anon"})
    assert ("gs" in fs.protocol, path) == (True, "bucket/x")


def test_azure_reads_account_and_key_from_the_environment(
    any_host: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("adlfs")
    monkeypatch.setenv("AZURE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_ACCOUNT_ACCESS_KEY", KEY)
    host = f"{ACCOUNT}.dfs.core.windows.net"
    for url in (f"az://{CONTAINER}/x", f"abfss://{CONTAINER}@{host}/x"):
        fs, _ = open_filesystem(url, {})
        assert (fs.account_name, fs.account_key) == (ACCOUNT, KEY)
    for url, options in (
        (f"abfss://{CONTAINER}@another.dfs.core.windows.net/x", {"anon": True}),
        (f"az://{CONTAINER}/x", {"account_name": "another", "account_key": KEY[::-1]}),
    ):
        fs, _ = open_filesystem(url, options)
        assert (fs.account_name, fs.account_key == KEY) == ("another", False)
