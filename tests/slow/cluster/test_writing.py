"""Executors on hosts that share nothing write one dataset despite failures."""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.slow.cluster.conftest import EXAMPLES
from tests.slow.cluster.hosts import Host, Network
from tests.slow.cluster.standalone import SPARKS_DISK, Standalone
from tests.slow.cluster.store import Store

from mdstorm_backend import open_dataset
from mdstorm_backend.format.index import Index
from mdstorm_backend.storage import Location
from mdstorm_backend.write import remove_dataset

pytestmark = pytest.mark.cluster

EXECUTOR = "CoarseGrainedExecutorBackend"


def check_holds(store: Store, name: str, rows: int, directory: Path, late: int = 0) -> None:
    """Check that a dataset has each row once, and that its directory has no leftover files.

    Up to `late` tasks that Spark abandoned may have stored a shard after the commit. No reader sees
    such a shard, and `remove_dataset` removes it.
    """
    found = store.objects(f"{name}/")
    for file, content in found.items():
        (directory / file).write_bytes(content)
    dataset = open_dataset(str(directory))
    assert sorted(dataset.to_table()["id"].to_pylist()) == list(range(rows))
    rest = found.keys() - {Path(url).name for url in dataset.file_urls}
    assert {"index.json", "_mdstorm"} <= rest
    assert len(rest) <= 2 + late
    assert remove_dataset(Location.of(str(directory))) == []


@dataclass(frozen=True)
class Job:
    """A job's program and its output directory, which may already contain a dataset."""

    program: Path
    name: str
    old_rows: int

    @property
    def arguments(self) -> tuple[Path, str]:
        return self.program, f"s3://bucket/{self.name}"


@pytest.fixture(params=[0, 50_000], ids=["new", "overwrite"])
def job(request: Any, network: Network, spark_cluster: Standalone) -> Job:
    """A job that writes a new dataset or overwrites an existing one."""
    name, old_rows = f"job-{uuid.uuid4().hex}", request.param
    if not old_rows:
        return Job(EXAMPLES / "write.py", name, old_rows)
    source = (EXAMPLES / "write.py").read_text()
    overwriting = source.replace("(df, url,", "(df, url, overwrite=True,")
    assert overwriting != source
    (network["driver"].disk / "tmp" / "overwrite.py").write_text(overwriting)
    job = Job(Path("/tmp/overwrite.py"), name, old_rows)
    spark_cluster.submit(*job.arguments, old_rows).finish()
    return job


def test_executors_on_both_hosts_write_each_row_once(
    store: Store, hosts: list[Host], spark_cluster: Standalone, tmp_path: Path
) -> None:
    out = spark_cluster.submit(EXAMPLES / "write.py", "s3://bucket/plain").finish()
    assert "100,000 rows in 32 shards" in out
    for host in hosts:
        assert f"on {host.address} (executor" in out
    check_holds(store, "plain", 100_000, tmp_path)


def test_spark_connect_client_writes_each_row_once_from_both_hosts(
    network: Network, store: Store, hosts: list[Host], spark_cluster: Standalone, tmp_path: Path
) -> None:
    store.forget()
    with spark_cluster.connect_server() as url:
        client = network["three"].start(
            *("python", EXAMPLES / "write.py", "s3://bucket/connect"),
            SPARK_REMOTE=url,
            **store.environment,
        )
        assert "100,000 rows in 32 shards" in client.finish()
    writers = {address for address, path, _ in store.sent if path.endswith(".mds")}
    assert writers == {host.address for host in hosts}
    check_holds(store, "connect", 100_000, tmp_path)


@pytest.mark.parametrize("shard", [5, 28])
def test_killed_executor_neither_loses_nor_duplicates_rows(
    store: Store, hosts: list[Host], spark_cluster: Standalone, tmp_path: Path, job: Job, shard: int
) -> None:
    store.at_upload(shard, ".mds", lambda: hosts[1].kill(EXECUTOR))
    out = spark_cluster.submit(*job.arguments).finish()
    assert f"Lost executor 1 on {hosts[1].address}" in out or "Lost executor 0 on" in out
    check_holds(store, job.name, 100_000, tmp_path)


def test_disconnected_host_neither_loses_nor_duplicates_rows(
    network: Network, store: Store, hosts: list[Host], spark_cluster: Standalone, tmp_path: Path
) -> None:
    store.at_upload(5, ".mds", lambda: network.unplug(hosts[1]))
    conf = {
        "spark.network.timeout": "15s",
        "spark.network.timeoutInterval": "5s",
        "spark.executor.heartbeatInterval": "2s",
    }
    program = spark_cluster.submit(EXAMPLES / "write.py", "s3://bucket/cut", conf=conf)
    try:
        program.wait_for(f"on {hosts[1].address}: Executor heartbeat timed out")
    finally:
        network.plug(hosts[1])
    program.finish()
    hosts[1].wait_until_gone(EXECUTOR)
    check_holds(store, "cut", 100_000, tmp_path, late=4)


def test_speculative_tasks_for_slow_host_duplicate_no_rows(
    network: Network,
    store: Store,
    hosts: list[Host],
    spark_cluster: Standalone,
    tmp_path: Path,
    job: Job,
) -> None:
    store.at_upload(1, ".mds", lambda: network.slow_down(hosts[1], "500kbit"))
    conf = {
        "spark.speculation": "true",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.25",
    }
    program = spark_cluster.submit(*job.arguments, conf=conf)
    try:
        out = program.finish()
    finally:
        network.speed_up(hosts[1])
    assert "speculatable" in out
    hosts[1].wait_until_gone(EXECUTOR)
    check_holds(store, job.name, 100_000, tmp_path, late=4)


@pytest.fixture
def full(hosts: list[Host]) -> Iterator[Host]:
    """A host where Spark has no space for shuffle files."""
    hosts[1].run("mkdir", "-p", SPARKS_DISK)
    hosts[1].run("mount", "-t", "tmpfs", "-o", "size=128k", "small", SPARKS_DISK)
    yield hosts[1]
    hosts[1].wait_until_gone(EXECUTOR)
    hosts[1].run("umount", SPARKS_DISK)


@pytest.mark.parametrize("elsewhere", [False, True], ids=["fails", "is done elsewhere"])
def test_full_disk_is_reported_and_dataset_is_complete_or_missing(
    network: Network,
    store: Store,
    spark_cluster: Standalone,
    full: Host,
    tmp_path: Path,
    elsewhere: bool,
) -> None:
    shuffling = (EXAMPLES / "write.py").read_text().replace("(df,", "(df.repartition(8),")
    (network["driver"].disk / "tmp" / "shuffle.py").write_text(shuffling)
    conf = (
        {"spark.excludeOnFailure.enabled": "true"} if elsewhere else {"spark.task.maxFailures": "1"}
    )
    program = spark_cluster.submit(Path("/tmp/shuffle.py"), "s3://bucket/full", conf=conf)
    out = program.finish(fails=not elsewhere)
    assert re.search(rf"\({full.address} executor .*: No space left on device", out)
    if elsewhere:
        check_holds(store, "full", 100_000, tmp_path)
    else:
        assert store.objects("full/") == {}


def test_killed_driver_leaves_old_dataset_or_none_and_next_job_succeeds(
    network: Network,
    store: Store,
    hosts: list[Host],
    spark_cluster: Standalone,
    tmp_path: Path,
    job: Job,
) -> None:
    store.at_upload(20, ".mds", lambda: network["driver"].kill(job.program.name))
    spark_cluster.submit(*job.arguments).finish(fails=True)
    for host in hosts:
        host.wait_until_gone(EXECUTOR)
    left = store.objects(f"{job.name}/")
    new = [name for name in left if name.endswith(".mds")]
    if job.old_rows:
        index = Index.from_bytes(left["index.json"], url=job.name)
        old = {shard.stored.basename for shard in index.shards}
        assert old < set(new)
        assert sum(shard.samples for shard in index.shards) == job.old_rows
    else:
        assert "index.json" not in left
        assert new
    store.grow_old(f"{job.name}/")
    spark_cluster.submit(*job.arguments).finish()
    check_holds(store, job.name, 100_000, tmp_path)
