"""The environment variables by which MosaicML Streaming's programs choose their storage."""

import pickle

import pytest
from tests.mds_backend.small_datasets import write_ints
from tests.servers.azure import ACCOUNT, CONTAINER
from tests.servers.s3 import BUCKET, S3Server

from mdstorm_backend import open_dataset
from mdstorm_backend.errors import CredentialsError
from mdstorm_backend.storage import Location, filesystems, open_filesystem, urls

NOWHERE = "http://127.0.0.1:9"
KEY = "c29tZSBzZWNyZXQgdGhhdCBubyBvbmUga25vd3M="


pytestmark = pytest.mark.usefixtures("fresh_filesystems")


@pytest.fixture
def any_host(no_credentials: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open file systems of hosts that are not there."""
    monkeypatch.setattr(urls, "check_reachable", lambda filesystem: None)


@pytest.mark.parametrize("given", ["endpoint_url", "client_kwargs"])
def test_storage_options_count_more(
    given: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("S3_ENDPOINT_URL", NOWHERE)
    options = {"endpoint_url": s3.url}
    location = Location.of(
        f"s3://{BUCKET}/given", options if given == "endpoint_url" else {given: options}
    )
    location.write("x", [b"1"])
    assert location.read("x") == b"1"


def test_a_canned_acl_is_that_of_every_object(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S3_ENDPOINT_URL", s3.url)
    monkeypatch.setenv("S3_CANNED_ACL", "public-read")
    write_ints(f"s3://{BUCKET}/acl")
    for name in ("index.json", "shard.00000.mds"):
        assert s3.request("GET", f"/{BUCKET}/acl/{name}")


def test_the_requester_pays_for_the_buckets_that_are_named(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAICML_STREAMING_AWS_REQUESTER_PAYS", "other, paid")
    paid = [bool(open_filesystem(f"s3://{bucket}/x", {})[0].req_kw) for bucket in ("paid", BUCKET)]
    assert paid == [True, False]
    assert not open_filesystem("s3://paid/x", {"requester_pays": False})[0].req_kw


def test_keys_of_google_open_its_storage_as_s3(
    s3_without_keys: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3 = s3_without_keys
    monkeypatch.setattr(filesystems, "_GOOGLE_ENDPOINT", s3.url)
    monkeypatch.setenv("S3_ENDPOINT_URL", NOWHERE)
    monkeypatch.setenv("GCS_KEY", "GOOG-key")
    monkeypatch.setenv("GCS_SECRET", "secret-of-google")
    write_ints(f"gs://{BUCKET}/google")
    assert open_dataset(f"gs://{BUCKET}/google")[0] == {"n": 0}
    assert Location.of(f"gs://{BUCKET}/google").list_names() == ["index.json", "shard.00000.mds"]
    location = Location.of(f"gs://{BUCKET}/google")
    s3.check_credentials(True)
    try:
        with pytest.raises(CredentialsError, match=r"set: GCS_KEY, GCS_SECRET\)") as caught:
            location.read("index.json")
    finally:
        s3.check_credentials(False)
    assert "secret-of-google" not in f"{caught.value}{pickle.dumps(location)!r}"


def test_options_for_google_are_those_of_its_own_file_system(
    any_host: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gcsfs")
    monkeypatch.setenv("GCS_KEY", "GOOG-key")
    monkeypatch.setenv("GCS_SECRET", "secret-of-google")
    fs, path = open_filesystem("gs://bucket/x", {"token": "anon"})
    assert ("gs" in fs.protocol, path) == (True, "bucket/x")


def test_azure_has_the_account_and_its_key(any_host: None, monkeypatch: pytest.MonkeyPatch) -> None:
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
