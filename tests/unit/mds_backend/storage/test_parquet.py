"""Parquet files and Delta tables on every store, with each file downloaded once."""

import json
import pickle
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.delta_tables import put_table
from tests.kit.parquet_files import open_parquet
from tests.kit.servers.azure import ACCOUNT, CONTAINER, AzureServer
from tests.kit.servers.http import respond
from tests.kit.servers.s3 import BUCKET, S3Server
from tests.unit.mds_backend.storage.conftest import Store

from mdstorm_backend import errors
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.storage import Location
from mdstorm_backend.storage.stores.store import store_of
from mdstorm_backend.tables.delta_options import of_delta_rs

TABLE = pa.table({"n": range(100), "s": [str(n) * 30 for n in range(100)]})


def put(location: Location) -> None:
    """Write one file to each of two partitions, and a ``_SUCCESS`` file beside them."""
    for part in range(2):
        sink = pa.BufferOutputStream()
        pq.write_table(TABLE.slice(50 * part, 50), sink, row_group_size=20)
        location.child(f"k={part}").write("a.parquet", [sink.getvalue().to_pybytes()])
    location.write("_SUCCESS", [b"-"])


def test_parquet_has_the_same_rows_on_every_store(store: Store) -> None:
    put(store.location)
    dataset = open_parquet(store.url, storage_options=store.storage_options)
    assert dataset.schema.names == ("k", "n", "s")
    assert dataset.to_table(["n", "s"]).equals(TABLE)
    assert dataset.fingerprint == pickle.loads(pickle.dumps(dataset)).fingerprint  # noqa: S301
    other = open_parquet(dataset.file_urls[::-1], storage_options=store.storage_options)
    assert other.to_table(["n"])["n"].to_pylist() == [*range(50, 100), *range(50)]
    some = open_parquet(f"{store.url}/k=1/*", storage_options=store.storage_options)
    assert some[0]["n"] == 50
    with pytest.raises(errors.DatasetNotFoundError, match="neither a Parquet file nor"):
        open_parquet(f"{store.url}/none", storage_options=store.storage_options)


def test_missing_bucket_is_named(store: Store) -> None:
    if not store_of(store.url).has_buckets:
        pytest.skip("has no buckets")
    bucket = "/".join(store.url.split("/")[:3])
    missing = bucket.replace("://", "://no")
    url = store.url.replace(bucket, missing)
    with pytest.raises(errors.DatasetNotFoundError, match=f"because {missing} does not exist"):
        open_parquet(url, storage_options=store.storage_options)


def test_opening_asks_only_for_the_kinds_that_are_read(s3: S3Server) -> None:
    location = Location.of(f"s3://{BUCKET}/asked", s3.options())
    put(location)
    s3.requests.clear()
    dataset = open_parquet(location.url, storage_options=s3.options())
    objects = sorted(path.partition("/asked/")[2] for _, path in s3.requests if "/asked/" in path)
    files = ["k=0/a.parquet", "k=1/a.parquet"]
    assert objects == ["_delta_log", "index.json", *files, "metadata", "metadata"]
    s3.requests.clear()
    open_parquet(dataset.file_urls[0], storage_options=s3.options(), directory=location.url)
    assert not s3.count("GET", "index.json")  # a file of a directory is not an MDS dataset


def test_file_is_downloaded_once(s3: S3Server, tmp_path: Path) -> None:
    url, options = f"s3://{BUCKET}/parquet-once", {"endpoint_url": s3.url}
    put(Location.of(url, options))
    cache = CacheOptions(directory=str(tmp_path / "named"))
    s3.reset()
    for _ in range(2):
        dataset = open_parquet(url, storage_options=options, cache=cache)
        opened = s3.count("GET", ".parquet")
        for _ in range(3):
            assert dataset.to_table(["n", "s"]).equals(TABLE)
        assert opened in (2, 6)  # two footers, and nothing at the second opening
    assert s3.count("GET", ".parquet") == 6
    assert (tmp_path / "named/k=1/a.parquet").exists()


@pytest.mark.long
def test_fsspec_and_arrow_filesystem_objects_are_accepted(s3: S3Server) -> None:
    put(Location.of(f"s3://{BUCKET}/parquet-given", {"endpoint_url": s3.url}))
    ours = fsspec.filesystem("s3", endpoint_url=s3.url)
    arrow = pa.fs.S3FileSystem(
        endpoint_override=s3.url.removeprefix("http://"),
        scheme="http",
        access_key="testing",
        secret_key="testing-secret",
    )
    for given in (ours, arrow):
        for url in (f"s3://{BUCKET}/parquet-given", f"{BUCKET}/parquet-given"):
            assert open_parquet(url, filesystem=given).to_table(["n", "s"]).equals(TABLE)


def test_failing_store_raises_error_naming_the_file(s3: S3Server) -> None:
    url, options = f"s3://{BUCKET}/parquet-broken", {"endpoint_url": s3.url}
    put(Location.of(url, options))
    broken = {**options, "config_kwargs": {"retries": {"max_attempts": 0}}}
    cache = CacheOptions(retry=1)
    s3.fault = lambda method, path: (
        respond("500 Oops") if method == "GET" and path.endswith(".parquet") else None
    )
    with pytest.raises(errors.StorageError, match=r"k=0/a\.parquet cannot be read after 1 attempt"):
        open_parquet(url, storage_options=broken, cache=cache)
    s3.fault = None
    dataset = open_parquet(url, storage_options=broken, cache=cache)
    Location.of(url, options).child("k=0").remove("a.parquet")
    with pytest.raises(errors.DatasetNotFoundError, match=r"k=0/a\.parquet is gone"):
        dataset[0]
    Location.of(url, options).child("k=1").write("a.parquet", [b"PAR1"])
    with pytest.raises(errors.DatasetChangedError, match=r"k=1/a\.parquet was changed"):
        dataset[99]


@pytest.mark.long
@pytest.mark.parametrize("by_variables", [False, True])
def test_delta_table_on_s3_is_read(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variables: bool
) -> None:
    url, options = f"s3://{BUCKET}/delta-{by_variables}/t", {"endpoint_url": s3.url}
    put_table(Location.of(url, options), tmp_path)
    if by_variables:
        monkeypatch.delenv("AWS_ENDPOINT_URL")
        monkeypatch.setenv("S3_ENDPOINT_URL", s3.url)
        options = {}
    else:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        options = {**options, "key": "some", "secret": "other"}
    assert open_parquet(url, storage_options=options).to_table()["n"].to_pylist() == [1, 2, 4]
    with pytest.raises(errors.UnsupportedTableError, match="is a Delta table, whose files"):
        open_parquet([url, url], storage_options=options)


@pytest.mark.long
def test_delta_table_is_read_with_profile_or_credential_process(
    s3_without_keys: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3, url = s3_without_keys, f"s3://{BUCKET}/delta-profile/t"
    monkeypatch.delenv("AWS_REGION")
    given = {"key": "some", "secret": "other", "endpoint_url": s3.url}
    put_table(Location.of(url, given), tmp_path)
    keys = {"Version": 1, "AccessKeyId": "by-process", "SecretAccessKey": "testing-secret"}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text(
        f"[profile stored]\nregion = eu-west-1\naws_access_key_id = in-file\n"
        "aws_secret_access_key = testing-secret\n"
        f"[profile process]\ncredential_process = cat {tmp_path}/keys.json\n"
        "[profile bare]\nregion = eu-west-1\n"
    )
    location = Location.of(url, {"profile": "stored", "endpoint_url": s3.url})
    found = of_delta_rs(location)[1]
    assert (found["AWS_ACCESS_KEY_ID"], found["AWS_REGION"]) == ("in-file", "eu-west-1")
    for options in ({"profile": "stored"}, {"profile": "process"}, {}):
        if not options:
            monkeypatch.setenv("AWS_PROFILE", "process")
            assert of_delta_rs(Location.of(url))[1]["AWS_ACCESS_KEY_ID"] == "by-process"
        options |= {"endpoint_url": s3.url}
        assert open_parquet(url, storage_options=options).to_table()["n"].to_pylist() == [1, 2, 4]
    for name, text in (("none", "profile \\(none\\) could not be found"), ("bare", "credentials")):
        monkeypatch.setenv("AWS_PROFILE", name)
        with pytest.raises(errors.CredentialsError, match=f"gives no access .*{text}"):
            of_delta_rs(Location.of(url))


def test_delta_table_on_azure_is_read(
    azure: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    options = {"connection_string": azure.connection_string()}
    url = f"az://{CONTAINER}/delta/t"
    put_table(Location.of(url, options), tmp_path)
    assert open_parquet(url, storage_options=options).to_table()["n"].to_pylist() == [1, 2, 4]


def test_delta_table_in_public_azure_container_is_read_without_credentials(
    azure: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    blob = pytest.importorskip("azure.storage.blob")
    whole = azure.connection_string()
    with blob.ContainerClient.from_connection_string(whole, "public") as container:
        container.create_container(public_access="container")
    url = "az://public/delta/t"
    put_table(Location.of(url, {"connection_string": whole}), tmp_path)
    public = ";".join(part for part in whole.split(";") if not part.startswith("AccountKey="))
    options = {"connection_string": public, "anon": True}
    assert open_parquet(url, storage_options=options).to_table()["n"].to_pylist() == [1, 2, 4]


def test_storage_options_are_renamed_for_delta_rs(
    no_credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("adlfs")
    pytest.importorskip("gcsfs")

    def of(url: str, **options: Any) -> tuple[str, dict[str, str]]:
        return of_delta_rs(Location.of(url, options))

    client = {"endpoint_url": "http://localhost:1", "region_name": "eu-west-1"}
    assert of("s3a://bucket/t", anon=True, client_kwargs=client) == (
        "s3://bucket/t",
        {
            "AWS_ENDPOINT_URL": "http://localhost:1",
            "AWS_REGION": "eu-west-1",
            "AWS_SKIP_SIGNATURE": "true",
            "ALLOW_HTTP": "true",
        },
    )
    monkeypatch.setenv("AZURE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_ACCOUNT_ACCESS_KEY", "a2V5")
    _, found = of(f"abfss://c@{ACCOUNT}.dfs.core.windows.net/t")
    assert found == {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}
    _, found = of(f"abfss://c@{ACCOUNT}.dfs.core.windows.net/t", anon=True)
    assert found == {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}
    monkeypatch.delenv("AZURE_ACCOUNT_ACCESS_KEY")
    _, found = of(f"abfss://c@{ACCOUNT}.dfs.core.windows.net/t", anon=True)
    assert found == {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_SKIP_SIGNATURE": "true"}
    assert of("gs://b/t", token="anon")[1] == {"GOOGLE_SKIP_SIGNATURE": "true"}
    assert of("gs://b/t", token="/k.json")[1] == {"GOOGLE_SERVICE_ACCOUNT": "/k.json"}
    assert of("gs://b/t", token={"a": "b"})[1] == {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"a": "b"}'}
    monkeypatch.setenv("GCS_KEY", "key")
    monkeypatch.setenv("GCS_SECRET", "secret")
    url, found = of("gs://b/t")
    assert (url, found["AWS_ACCESS_KEY_ID"], found["AWS_ENDPOINT_URL"]) == (
        "s3://b/t",
        "key",
        "https://storage.googleapis.com",
    )


def test_delta_table_on_unsupported_store_raises_error_listing_supported_stores(
    tmp_path: Path,
) -> None:
    put_table(Location.of("memory://delta/t"), tmp_path)
    with pytest.raises(
        errors.UnsupportedTableError, match="local disks and mounts, Azure storage, Google"
    ):
        open_parquet("memory://delta/t")
