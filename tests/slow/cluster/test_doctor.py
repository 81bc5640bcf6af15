"""`mdstorm doctor` in a job on two hosts, each of which checks the directory."""

from pathlib import Path

import pytest
from tests.slow.cluster.hosts import Host
from tests.slow.cluster.launchers import finish, torchrun
from tests.slow.cluster.store import Store

pytestmark = pytest.mark.cluster

DOCTOR = (Path("-m"), "mdstorm", "doctor", "--cache-dir")


def test_doctor_on_two_hosts_finds_no_problem_with_object_store(
    hosts: list[Host], store: Store
) -> None:
    before = store.objects("")
    said = finish(torchrun(hosts, *DOCTOR, "s3://bucket/cache", **store.environment))
    assert "rank 0 of 4 on 2 hosts" in said
    assert said.count("no problems found") == 1
    assert store.objects("") == before


def test_doctor_on_two_hosts_notes_directory_in_files_of_one_host(hosts: list[Host]) -> None:
    said = finish(torchrun(hosts, *DOCTOR, "file:///tmp/cache", processes=1))
    assert "/tmp/cache is in this machine's files, and the job has 2 hosts" in said
    assert not [one for host in hosts for one in host.disk.glob("tmp/cache/*")]
