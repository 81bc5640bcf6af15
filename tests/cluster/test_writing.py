"""Executors on hosts that share nothing write one dataset, whatever happens meanwhile."""

from pathlib import Path

import pytest
from tests.cluster.conftest import EXAMPLES
from tests.cluster.hosts import Host
from tests.cluster.standalone import Standalone
from tests.cluster.store import Store

from mdstorm_backend import open_dataset

pytestmark = pytest.mark.cluster


def check_holds(store: Store, name: str, rows: int, directory: Path) -> None:
    """Check that a dataset has each row once, and its directory nothing else but our marker."""
    found = store.objects(f"{name}/")
    for file, content in found.items():
        (directory / file).write_bytes(content)
    dataset = open_dataset(str(directory))
    assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(rows))
    assert found.keys() - {Path(url).name for url in dataset.file_urls} == {
        "index.json",
        "_mdstorm",
    }


def test_executors_of_both_hosts_write_each_row_once(
    store: Store, hosts: list[Host], spark_cluster: Standalone, tmp_path: Path
) -> None:
    out = spark_cluster.submit(EXAMPLES / "write.py", "s3://bucket/plain").finish()
    assert "100,000 rows in 32 shards" in out
    for host in hosts:
        assert f"on {host.address} (executor" in out
    check_holds(store, "plain", 100_000, tmp_path)
