"""Ranks on hosts that share nothing: who reads which rows, and what each host downloads."""

import uuid
from pathlib import Path

import pytest
from tests.cluster.conftest import EACH_ROW_ONCE, EXAMPLES, PROGRAMS, Numbers, epochs
from tests.cluster.hosts import Host
from tests.cluster.launchers import finish, torchrun
from tests.cluster.store import Store


@pytest.fixture
def cold() -> dict[str, str]:
    """Variables for a run whose caches are empty."""
    return {"MDSTORM_CACHE_DIR": f"/tmp/{uuid.uuid4().hex}"}


def check_shares(store: Store, hosts: list[Host], numbers: Numbers) -> None:
    """Each host has downloaded its share, once, and at most a shard at the border in addition."""
    share = sum(numbers.shard_bytes) / len(hosts)
    for host in hosts:
        assert store.bytes_of(host) <= 1.05 * share + max(numbers.shard_bytes), host.name


@pytest.mark.parametrize(
    ("program", "processes"),
    [
        pytest.param(EXAMPLES / "train_torchrun.py", 1, id="exact order, 1 rank a host"),
        pytest.param(
            EXAMPLES / "train_torchrun.py", 2, id="exact order", marks=pytest.mark.cluster
        ),
        pytest.param(PROGRAMS / "streaming.py", 2, id="elastic order", marks=pytest.mark.cluster),
    ],
)
def test_three_shuffled_epochs_have_each_row_once_and_each_host_downloads_its_share_once(
    store: Store,
    hosts: list[Host],
    numbers: Numbers,
    cold: dict[str, str],
    program: Path,
    processes: int,
) -> None:
    store.forget()
    arguments = [f"s3://bucket/{uuid.uuid4().hex}.pt"] if program.parent == EXAMPLES else []
    started = torchrun(
        hosts, program, numbers.url, *arguments, processes=processes, **store.environment, **cold
    )
    assert epochs(finish(started)) == [EACH_ROW_ONCE] * 3
    check_shares(store, hosts, numbers)
