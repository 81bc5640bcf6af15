"""A training job that loses a host, and checkpoints that resume on a different number of hosts."""

import re
import uuid
from pathlib import Path

import pytest
from tests.slow.cluster.conftest import EACH_ROW_ONCE, EXAMPLES, Numbers, stored_numbers
from tests.slow.cluster.hosts import Host, Network, Program
from tests.slow.cluster.launchers import finish, torchrun
from tests.slow.cluster.store import Store

pytestmark = pytest.mark.cluster

TRAIN = EXAMPLES / "train_torchrun.py"


def check_each_row_once(output: str) -> None:
    """Check that each epoch read each row once; a restart at an epoch's end may print it twice."""
    epochs = dict(re.findall(r"epoch (\d): (\d.*)", output))
    assert epochs == dict.fromkeys("012", EACH_ROW_ONCE), output


def test_training_continues_after_host_leaves_and_returns(
    network: Network, store: Store, numbers: Numbers
) -> None:
    name = f"{uuid.uuid4().hex}.pt"

    def start(host: Host) -> None:
        options = {"nodes": "1:2", "processes": 1, "restarts": 3, **store.environment}
        # Otherwise, hosts that joined earlier look for each other at an old port.
        options["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        both, arguments = [network["one"], host], (numbers.url, f"s3://bucket/{name}")
        started.extend(torchrun(both, TRAIN, *arguments, on=[host], **options))

    started: list[Program] = []

    def come_back() -> None:
        start(network["three"])
        started[0].wait_for(
            "closing signal SIGTERM"
        )  # torchrun ends the program to restart it on both hosts

    def lose() -> None:
        network["three"].end()
        store.at_upload(2, name, come_back)

    store.at_upload(2, name, lose)
    for host in (network["one"], network["three"]):
        start(host)
    try:
        output = started[0].finish() + started[2].finish()
    finally:
        print("THREE", started[2].output)
    assert "continues in epoch 0" in output
    check_each_row_once(output)


@pytest.fixture(scope="module")
def stopped(store: Store, hosts: list[Host], numbers: Numbers) -> bytes:
    """The checkpoint of a job on two hosts whose processes were killed in the first epoch."""

    def kill() -> None:
        for host in hosts:
            host.kill(TRAIN.name)

    store.at_upload(4, "stopped.pt", kill)
    for program in torchrun(
        hosts, TRAIN, numbers.url, "s3://bucket/stopped.pt", **store.environment
    ):
        program.finish(fails=True)
    store.reset()
    return store.objects("stopped.pt")[""]


@pytest.mark.parametrize("names", ["one", "one two three"])
def test_checkpoint_from_two_hosts_resumes_on_one_and_on_three_hosts(
    network: Network, store: Store, numbers: Numbers, stopped: bytes, names: str
) -> None:
    name = f"{uuid.uuid4().hex}.pt"
    store.put(name, stopped)
    hosts = [network[one] for one in names.split()]
    output = finish(
        torchrun(hosts, TRAIN, numbers.url, f"s3://bucket/{name}", processes=1, **store.environment)
    )
    assert "continues in epoch 0, after" in output
    check_each_row_once(output)


def test_different_dataset_on_one_host_raises_state_mismatch(
    store: Store, hosts: list[Host], numbers: Numbers, stopped: bytes, tmp_path: Path
) -> None:
    name = f"{uuid.uuid4().hex}.pt"
    store.put(name, stopped)
    others = stored_numbers(store, tmp_path / "data", "others", 50_000)
    first, second = (
        torchrun(
            hosts, TRAIN, url, f"s3://bucket/{name}", on=[host], processes=1, **store.environment
        )
        for host, url in zip(hosts, [numbers.url, others.url], strict=True)
    )
    output = second[0].finish(fails=True)
    assert re.search(r"StateMismatchError: .*others.*\(dataset: .* there, .* here", output)
    first[0].finish(fails=True)
