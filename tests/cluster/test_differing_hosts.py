"""Hosts that differ in what is installed on them, in their clocks, disks and links."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.conftest import EACH_ROW_ONCE, EXAMPLES, Numbers, epochs
from tests.cluster.hosts import Host, Network
from tests.cluster.launchers import finish, torchrun
from tests.cluster.pythons import PYTHON, install_python, install_python_without
from tests.cluster.standalone import Standalone
from tests.cluster.store import Store

pytestmark = pytest.mark.cluster

ROOT = EXAMPLES.parents[1]
TRAIN = EXAMPLES / "train_torchrun.py"

#: The user, where mdstorm is, and how many hours the clock is ahead of the file system's.
SHOW = """
import os, pathlib, tempfile, time, mdstorm
with tempfile.NamedTemporaryFile() as file:
    ahead = time.time() - os.stat(file.name).st_mtime
print(os.getuid(), pathlib.Path(mdstorm.__file__).parents[2], round(ahead / 3600))
"""
#: Reads the second half, shuffled, and says which rows it has got.
READ = """
import sys
from mdstorm import make_batch_reader
with make_batch_reader(sys.argv[1], cur_shard=1, shard_count=2, shuffle_rows=True) as reader:
    rows = [row for batch in reader for row in batch.id]
print(len(rows), len(set(rows)), min(rows), max(rows))
"""


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        ("pyarrow", "Python on the Spark worker two has no pyarrow"),
        ("mdstorm", "mdstorm cannot be imported on the Spark worker two (No module named"),
    ],
    ids=["pyarrow", "mdstorm"],
)
def test_an_error_names_the_host_and_what_it_lacks(
    network: Network,
    hosts: list[Host],
    store: Store,
    spark_cluster: Standalone,
    lacking: str,
    said: str,
) -> None:
    for host in (hosts[0], network["driver"]):
        install_python(host)
    install_python_without(hosts[1], lacking)
    conf = {"spark.pyspark.python": PYTHON, "spark.task.maxFailures": "1"}
    program = EXAMPLES / "train_spark.py"
    out = spark_cluster.submit(program, "s3://bucket/lacking", conf=conf).finish(fails=True)
    assert f"MissingDependencyError: {said}" in out
    assert "Spark writes Parquet instead" not in out
    assert store.objects("lacking/") == {}


@pytest.fixture
def different(network: Network, hosts: list[Host]) -> Iterator[list[object]]:
    """Another link, user and path of mdstorm on the second host: what comes before its commands."""
    for name in ("compat", "mds_backend"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, hosts[1].disk / "tmp" / "elsewhere" / name, ignore=ignored)
    network.slow_down(hosts[1], "20mbit")
    rights = "+dac_override"  # to read the Python of this machine, whosever it is
    yield [
        *("setpriv", "--reuid=1234", f"--inh-caps={rights}", f"--ambient-caps={rights}", "env"),
        "PYTHONPATH=/tmp/elsewhere/compat:/tmp/elsewhere/mds_backend",
    ]
    network.speed_up(hosts[1])
    shutil.rmtree(hosts[1].disk / "tmp" / "elsewhere")


def test_hosts_that_differ_in_link_user_and_path_train_on_each_row_once(
    hosts: list[Host], store: Store, numbers: Numbers, different: list[object]
) -> None:
    assert hosts[1].run(*different, "python", "-c", SHOW).split() == ["1234", "/tmp/elsewhere", "0"]
    before = {hosts[1].name: different}
    arguments = (numbers.url, "s3://bucket/different.pt")
    started = torchrun(hosts, TRAIN, *arguments, before=before, processes=1, **store.environment)
    assert epochs(finish(started)) == [EACH_ROW_ONCE] * 3


def test_a_host_whose_clock_is_an_hour_ahead_reads_its_share(
    hosts: list[Host], store: Store, numbers: Numbers, different: list[object]
) -> None:
    library = Path("/usr/lib", f"{os.uname().machine}-linux-gnu", "faketime", "libfaketimeMT.so.1")
    if not library.exists():
        pytest.skip("needs libfaketime: apt-get install faketime")
    ahead = [*different, f"LD_PRELOAD={library}", "FAKETIME=+1h", "DONT_FAKE_MONOTONIC=1", "python"]
    assert hosts[1].run(*ahead, "-c", SHOW).split() == ["1234", "/tmp/elsewhere", "1"]
    for _ in range(2):  # the second time from the cache
        found = hosts[1].run(*ahead, "-c", READ, numbers.url, **store.environment)
        assert found.split() == ["50000", "50000", "50000", "99999"]


def test_a_host_whose_disk_is_full_says_so_and_all_end(
    hosts: list[Host], store: Store, numbers: Numbers
) -> None:
    hosts[1].run("mkdir", "-p", "/tmp/small")
    hosts[1].run("mount", "-t", "tmpfs", "-o", "size=1m", "small", "/tmp/small")
    first, second = torchrun(
        hosts,
        TRAIN,
        *(numbers.url, "s3://bucket/full.pt"),
        **store.environment,
        MDSTORM_CACHE_DIR="/tmp/small",
    )
    output = second.finish(fails=True)
    assert re.search(r"StorageError: .*/tmp/small.*No space left on device", output), output
    first.finish(fails=True)
