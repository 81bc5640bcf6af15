"""`mdstorm doctor` in a job of two hosts: each reads its share, or is named."""

from pathlib import Path

import pytest
from tests.cluster.hosts import Host
from tests.cluster.launchers import finish, torchrun
from tests.cluster.store import Store

from mdstorm.doctor._sample_rows import ROWS

pytestmark = pytest.mark.cluster

DOCTOR = (Path("-m"), "mdstorm", "doctor", "--cache-dir")


def test_ranks_of_both_hosts_read_what_rank_0_writes_to_a_store(
    hosts: list[Host], store: Store
) -> None:
    before = store.objects("")
    said = finish(torchrun(hosts, *DOCTOR, "s3://bucket/cache", **store.environment))
    right = f"4 ranks on 2 hosts, resumed once: all {ROWS} rows, each once, with the right values"
    assert f"torch, {right}" in said
    assert "no problems found" in said
    assert store.objects("") == before
    for host in hosts:
        assert store.bytes_of(host) > 0


def test_a_directory_that_each_host_has_for_itself_is_a_problem(hosts: list[Host]) -> None:
    programs = torchrun(hosts, *DOCTOR, "file:///tmp/cache", processes=1)
    said = "".join(program.finish(fails=True) for program in programs)
    assert "/tmp/cache is on a disk of this machine, and the job has 2 hosts" in said
    assert not [one for host in hosts for one in host.disk.glob("tmp/cache/*")]
