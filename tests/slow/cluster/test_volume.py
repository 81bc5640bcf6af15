"""A volume that is mounted on every host, as ``/dbfs`` and ``/Volumes`` are on Databricks."""

from collections.abc import Iterator

import pytest
from tests.slow.cluster.conftest import EACH_ROW_ONCE, EXAMPLES, epochs
from tests.slow.cluster.hosts import Host, Network
from tests.slow.cluster.launchers import finish, torchrun
from tests.slow.cluster.standalone import Standalone

pytestmark = pytest.mark.cluster

ROOT = EXAMPLES.parents[1]


@pytest.fixture
def mount(network: Network, hosts: list[Host], request: pytest.FixtureRequest) -> Iterator[str]:
    """The mount point of a volume, whose files all hosts share."""
    path = request.param
    serve = f"cd {ROOT} && tail -f /dev/null | python -m tests.kit.servers.volume /srv {path}"
    machines = [*hosts, network["driver"]]
    for host in machines:
        server = host.start("sh", "-c", serve)
        try:
            server.wait_for("mounted")
        except AssertionError:
            pytest.skip(f"needs FUSE: {server.output}")
    yield path
    for host in machines:
        host.run("umount", "--lazy", path)


@pytest.mark.parametrize("mount", ["/dbfs", "/Volumes"], indirect=True)
def test_rows_written_to_volume_by_executors_are_read_once_by_ranks_on_both_hosts(
    network: Network, hosts: list[Host], spark_cluster: Standalone, mount: str
) -> None:
    directory = f"{mount}/main/default/data{mount}"
    network["driver"].run("mkdir", "-p", directory)
    written = spark_cluster.submit(EXAMPLES / "write.py", f"file://{directory}/numbers").finish()
    assert "100,000 rows in 32 shards" in written
    arguments = (f"{directory}/numbers", f"file://{directory}/checkpoint.pt")
    cache = {"MDSTORM_CACHE_DIR": f"/tmp/cache{mount}"}
    program = EXAMPLES / "train_torchrun.py"
    trained = finish(torchrun(hosts, program, *arguments, processes=1, **cache))
    assert epochs(trained) == [EACH_ROW_ONCE] * 3
    for host in hosts:
        cached = [*host.disk.glob(f"tmp/cache{mount}/**/*.mds")]
        assert 0 < len(cached) <= 17, "half of the shards, plus the one at the boundary"
