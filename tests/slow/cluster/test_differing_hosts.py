"""Hosts with different packages, clocks, disks and links."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slow.cluster.conftest import EACH_ROW_ONCE, EXAMPLES, PROGRAMS, Numbers, epochs
from tests.slow.cluster.hosts import Host, Network, Program
from tests.slow.cluster.launchers import finish, torchrun
from tests.slow.cluster.pythons import PYTHON, install_python, install_python_without
from tests.slow.cluster.standalone import Standalone
from tests.slow.cluster.store import Store

pytestmark = pytest.mark.cluster

ROOT = EXAMPLES.parents[1]
TRAIN = EXAMPLES / "train_torchrun.py"
READ = PROGRAMS / "read_half.py"

#: Program that prints the user, mdstorm's directory, and by how many hours the clock is ahead.
SHOW = """
import os, pathlib, tempfile, time, mdstorm
with tempfile.NamedTemporaryFile() as file:
    ahead = time.time() - os.stat(file.name).st_mtime
print(os.getuid(), pathlib.Path(mdstorm.__file__).parents[2], round(ahead / 3600))
"""


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("pyarrow", "Python on a Spark worker has no pyarrow"),
        ("mdstorm", "mdstorm cannot be imported on the Spark worker two (No module named"),
    ],
    ids=["pyarrow", "mdstorm"],
)
def test_error_reports_package_missing_on_one_host(
    network: Network,
    hosts: list[Host],
    store: Store,
    spark_cluster: Standalone,
    missing: str,
    said: str,
) -> None:
    for host in (hosts[0], network["driver"]):
        install_python(host)
    install_python_without(hosts[1], missing)
    conf = {"spark.pyspark.python": PYTHON, "spark.task.maxFailures": "1"}
    program = EXAMPLES / "train_spark.py"
    out = spark_cluster.submit(program, "s3://bucket/missing", conf=conf).finish(fails=True)
    assert f"MissingDependencyError: {said}" in out
    assert "Spark writes Parquet instead" not in out
    assert store.objects("missing/") == {}


@pytest.fixture
def elsewhere(hosts: list[Host]) -> Iterator[list[object]]:
    """Install mdstorm at a different path on the second host; yield the prefix to run it there."""
    for name in ("compat", "mds_backend"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, hosts[1].disk / "tmp" / "elsewhere" / name, ignore=ignored)
    yield ["env", "PYTHONPATH=/tmp/elsewhere/compat:/tmp/elsewhere/mds_backend"]
    shutil.rmtree(hosts[1].disk / "tmp" / "elsewhere")


@pytest.fixture
def different(
    network: Network, hosts: list[Host], elsewhere: list[object]
) -> Iterator[list[object]]:
    """A different network speed, user and mdstorm path on the second host."""
    network.slow_down(hosts[1], "20mbit")
    rights = "+dac_override"  # to read this machine's Python as any user
    user = ("setpriv", "--reuid=1234", f"--inh-caps={rights}", f"--ambient-caps={rights}")
    yield [*user, *elsewhere]
    network.speed_up(hosts[1])


@pytest.fixture
def newer(hosts: list[Host], elsewhere: list[object]) -> list[object]:
    """A version of mdstorm on the second host with newer state and cache formats."""
    engine = hosts[1].disk / "tmp" / "elsewhere" / "mds_backend" / "mdstorm_backend"
    latest = {
        "order/exact.py": r"(state_versions = range\(5, )7",
        "cache/directory.py": r"^(_VERSION = )\d$",
    }
    for file, version in latest.items():
        raised, times = re.subn(
            version, r"\g<1>69", (engine / file).read_text(), flags=re.MULTILINE
        )
        assert times == 1
        (engine / file).write_text(raised)
    return elsewhere


def test_hosts_with_different_network_user_and_path_train_on_each_row_once(
    hosts: list[Host], store: Store, numbers: Numbers, different: list[object]
) -> None:
    assert hosts[1].run(*different, "python", "-c", SHOW).split() == ["1234", "/tmp/elsewhere", "0"]
    before = {hosts[1].name: different}
    arguments = (numbers.url, "s3://bucket/different.pt")
    started = torchrun(hosts, TRAIN, *arguments, before=before, processes=1, **store.environment)
    assert epochs(finish(started)) == [EACH_ROW_ONCE] * 3


def test_state_from_newer_version_raises_error_on_older_host(
    hosts: list[Host], store: Store, numbers: Numbers, newer: list[object]
) -> None:
    arguments, before = (numbers.url, "s3://bucket/newer.pt"), {hosts[1].name: newer}

    def train(on: list[Host]) -> list[Program]:
        return torchrun(on, TRAIN, *arguments, before=before, processes=1, **store.environment)

    store.at_upload(2, "newer.pt", lambda: hosts[1].kill(TRAIN.name))
    for program in train(hosts[1:]):
        program.finish(fails=True)
    store.reset()
    first, second = train(hosts)
    message = "StateMismatchError: the state was written by a newer version of mdstorm: its version"
    assert message in first.finish(fails=True)
    second.finish(fails=True)


def test_ranks_with_different_batch_sizes_raise_error(
    hosts: list[Host], store: Store, numbers: Numbers
) -> None:
    assert "batch_size=500" in TRAIN.read_text()
    for host, size in zip(hosts, ("500", "400"), strict=True):
        program = TRAIN.read_text().replace("batch_size=500", f"batch_size={size}")
        (host.disk / "tmp" / "train.py").write_text(program)
    arguments = (numbers.url, "s3://bucket/sizes.pt")
    started = torchrun(hosts, Path("/tmp/train.py"), *arguments, processes=1, **store.environment)
    output = "".join(program.finish(fails=True) for program in started)
    assert "Is there a distributed collective mismatch in your code?" in output  # from Gloo


def test_two_versions_of_mdstorm_share_one_cache(
    hosts: list[Host], store: Store, numbers: Numbers, newer: list[object]
) -> None:
    environment = {**store.environment, "MDSTORM_CACHE_DIR": "/tmp/of_two_versions"}
    store.forget()
    for before in (newer, [], newer):
        found = hosts[1].run(*before, "python", READ, numbers.url, 1, **environment)
        assert found.split() == ["50000", "50000", "50000", "99999"]
    share = sum(numbers.shard_bytes) / 2
    assert store.bytes_of(hosts[1]) <= share + max(numbers.shard_bytes), "downloaded once"


@pytest.fixture
def ahead(hosts: list[Host], different: list[object]) -> list[object]:
    """Like `different`, with the second host's clock also an hour ahead."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler named cc")
    hosts[1].run("cc", "-shared", "-fPIC", "-o", "/tmp/ahead.so", PROGRAMS / "ahead.c")
    words = [*different, "LD_PRELOAD=/tmp/ahead.so"]
    assert hosts[1].run(*words, "python", "-c", SHOW).split() == ["1234", "/tmp/elsewhere", "1"]
    return words


def test_host_with_clock_one_hour_ahead_reads_its_share(
    hosts: list[Host], store: Store, numbers: Numbers, ahead: list[object]
) -> None:
    for _ in range(2):  # the second time from the cache
        found = hosts[1].run(*ahead, "python", READ, numbers.url, 1, **store.environment)
        assert found.split() == ["50000", "50000", "50000", "99999"]


def test_host_with_clock_one_hour_ahead_trains_with_others_on_each_row_once(
    hosts: list[Host], store: Store, numbers: Numbers, ahead: list[object]
) -> None:
    world = {"MASTER_ADDR": "one", "MASTER_PORT": "29500", "WORLD_SIZE": "2"}
    world |= {"GLOO_SOCKET_IFNAME": "eth0", **store.environment}
    command = ("python", TRAIN, numbers.url, "s3://bucket/ahead.pt")
    started = [
        host.start(*before, *command, RANK=str(rank), **world)
        for rank, (host, before) in enumerate(zip(hosts, ([], ahead), strict=True))
    ]
    assert epochs(finish(started)) == [EACH_ROW_ONCE] * 3


def test_full_disk_on_one_host_ends_training_on_all_hosts(
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
