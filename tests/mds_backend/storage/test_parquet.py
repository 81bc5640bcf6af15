"""Parquet elsewhere: on every storage, brought here once."""

import pickle
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.mds_backend.storage.conftest import Store
from tests.servers.http import respond
from tests.servers.s3 import BUCKET, S3Server

from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.errors import CorruptDatasetError, DatasetNotFoundError, StorageError
from mdstorm_backend.parquet import open_parquet
from mdstorm_backend.storage import Location

TABLE = pa.table({"n": range(100), "s": [str(n) * 30 for n in range(100)]})


def put(location: Location) -> None:
    """Write two files, in partitions, and what lies beside them."""
    for part in range(2):
        sink = pa.BufferOutputStream()
        pq.write_table(TABLE.slice(50 * part, 50), sink, row_group_size=20)
        location.child(f"k={part}").write("a.parquet", [sink.getvalue().to_pybytes()])
    location.write("_SUCCESS", [b"-"])


def test_every_storage_has_the_same_rows(store: Store) -> None:
    put(store.location)
    dataset = open_parquet(store.url, storage_options=store.storage_options)
    assert dataset.schema.names == ("k", "n", "s")
    assert dataset.to_table(["n", "s"]).equals(TABLE)
    assert dataset.fingerprint == pickle.loads(pickle.dumps(dataset)).fingerprint  # noqa: S301
    other = open_parquet(dataset.file_urls[::-1], storage_options=store.storage_options)
    assert other.to_table(["n"])["n"].to_pylist() == [*range(50, 100), *range(50)]
    some = open_parquet(f"{store.url}/k=1/*", storage_options=store.storage_options)
    assert some[0]["n"] == 50
    with pytest.raises(DatasetNotFoundError, match="neither a Parquet file nor"):
        open_parquet(f"{store.url}/none", storage_options=store.storage_options)


def test_a_file_is_downloaded_once(s3: S3Server, tmp_path: Path) -> None:
    url, options = f"s3://{BUCKET}/parquet-once", {"endpoint_url": s3.url}
    put(Location.of(url, options))
    cache = CacheOptions(directory=str(tmp_path / "named"))
    s3.reset()
    for _ in range(2):
        dataset = open_parquet(url, storage_options=options, cache=cache)
        opened = s3.count("GET", ".parquet")
        for _ in range(3):
            assert dataset.to_table(["n", "s"]).equals(TABLE)
        assert opened in (2, 6)  # the footers; after those of the first time, two files
    assert s3.count("GET", ".parquet") == 6
    assert (tmp_path / "named/k=1/a.parquet").exists()


def test_file_systems_of_fsspec_and_arrow(s3: S3Server) -> None:
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


def test_what_a_storage_fails_to_deliver(s3: S3Server) -> None:
    url, options = f"s3://{BUCKET}/parquet-broken", {"endpoint_url": s3.url}
    put(Location.of(url, options))
    broken = {**options, "config_kwargs": {"retries": {"max_attempts": 0}}}
    cache = CacheOptions(retry=1)
    s3.fault = lambda method, path: (
        respond("500 Oops") if method == "GET" and path.endswith(".parquet") else None
    )
    with pytest.raises(StorageError, match=r"k=0/a\.parquet cannot be read after 1 attempt"):
        open_parquet(url, storage_options=broken, cache=cache)
    s3.fault = None
    dataset = open_parquet(url, storage_options=broken, cache=cache)
    Location.of(url, options).child("k=0").remove("a.parquet")
    with pytest.raises(DatasetNotFoundError, match=r"k=0/a\.parquet is gone"):
        dataset[0]
    Location.of(url, options).child("k=1").write("a.parquet", [b"PAR1"])
    with pytest.raises(CorruptDatasetError, match=r"k=1/a\.parquet no longer has"):
        dataset[99]
