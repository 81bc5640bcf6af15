"""Delta tables elsewhere: delta-rs gets the credentials and options that fsspec has."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.delta_tables import WITH_VECTORS, add, commit, field, kill, metadata
from tests.servers.azure import ACCOUNT, CONTAINER, AzureServer
from tests.servers.s3 import BUCKET, S3Server

from mdstorm_backend.errors import UnsupportedTableError
from mdstorm_backend.parquet import open_parquet
from mdstorm_backend.storage import Location
from mdstorm_backend.tables.delta import of_delta_rs


def put(location: Location, folder: Path) -> None:
    """Copy a table there: a dead row in each of two versions."""
    table = folder / "table"
    rows = pa.table({"n": range(5)})
    fields = metadata([field("n", "long")])
    commit(table, WITH_VECTORS, fields, add(table, "a b/f.parquet", rows, dead=[0]))
    kill(table, {"a%20b/f.parquet": [0, 3]})
    for path in table.rglob("*"):
        if path.is_file():
            location.write(str(path.relative_to(table)), [path.read_bytes()])


def numbers(url: str, options: dict[str, Any]) -> list[int]:
    found: list[int] = open_parquet(url, storage_options=options).to_table()["n"].to_pylist()
    return found


@pytest.mark.parametrize("by_variables", [False, True])
def test_s3(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variables: bool
) -> None:
    url, options = f"s3://{BUCKET}/delta-{by_variables}/t", {"endpoint_url": s3.url}
    put(Location.of(url, options), tmp_path)
    if by_variables:
        monkeypatch.delenv("AWS_ENDPOINT_URL")
        monkeypatch.setenv("S3_ENDPOINT_URL", s3.url)
        options = {}
    else:
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        options = {**options, "key": "some", "secret": "other"}
    assert numbers(url, options) == [1, 2, 4]
    with pytest.raises(UnsupportedTableError, match="is a Delta table, whose files"):
        open_parquet([url, url], storage_options=options)


def test_azure(azure: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_CONNECTION_STRING")
    options = {"connection_string": azure.connection_string()}
    url = f"az://{CONTAINER}/delta/t"
    put(Location.of(url, options), tmp_path)
    assert numbers(url, options) == [1, 2, 4]


def test_options_that_delta_rs_knows_by_other_names(
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


def test_storages_without_delta_rs_are_refused_by_name(tmp_path: Path) -> None:
    put(Location.of("memory://delta/t"), tmp_path)
    with pytest.raises(UnsupportedTableError, match="local disks and mounts, S3, Azure"):
        open_parquet("memory://delta/t")
