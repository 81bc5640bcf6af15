"""Which rows each rank reads and what each host downloads, on hosts that share nothing."""

import shutil
import uuid
from pathlib import Path

import numpy as np
import pytest
from tests.slow.cluster.conftest import EACH_ROW_ONCE, EXAMPLES, PROGRAMS, Numbers, epochs
from tests.slow.cluster.hosts import Host
from tests.slow.cluster.launchers import finish, mpirun, torchrun
from tests.slow.cluster.store import Store

EPOCHS = 3
#: Program that saves a rank's rows in the directory that all hosts share.
SAVE = f"""
import os, sys
import numpy as np
from mdstorm import make_batch_reader
shuffled = dict(shuffle_rows=True, num_epochs={EPOCHS})
with make_batch_reader(sys.argv[1], cur_shard="auto", **shuffled) as reader:
    rows = [row for batch in reader for row in batch.id]
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["RANK"]
np.save(f"/srv/{{os.uname().nodename}}{{rank}}", rows)
"""


@pytest.fixture
def cold() -> dict[str, str]:
    """Environment variables for a run that starts with empty caches."""
    return {"MDSTORM_CACHE_DIR": f"/tmp/{uuid.uuid4().hex}"}


def check_shares(store: Store, hosts: list[Host], numbers: Numbers, times: int = 1) -> None:
    """Check that no host downloaded more than `times` times its share plus one shard."""
    share = sum(numbers.shard_bytes) / len(hosts)
    for host in hosts:
        downloaded = store.bytes_of(host)
        print(f"{host.name} downloaded {downloaded / share:.2f} times its share")
        assert downloaded <= times * (1.05 * share + max(numbers.shard_bytes)), host.name


def check_saved(hosts: list[Host], numbers: Numbers, ranks: list[str]) -> None:
    """Check that these ranks together saved each row exactly once per epoch."""
    saved = {}
    for path in (hosts[0].disk / "srv").glob("*.npy"):
        saved[path.stem] = np.load(path)
        path.unlink()
    assert sorted(saved) == ranks
    counts = np.bincount(np.concatenate([*saved.values()]), minlength=numbers.rows)
    assert counts.tolist() == [EPOCHS] * numbers.rows


@pytest.mark.long
def test_ranks_read_each_row_once_and_hosts_download_their_share_once(
    store: Store, hosts: list[Host], numbers: Numbers, cold: dict[str, str]
) -> None:
    store.forget()
    environment = {**store.environment, **cold, "WORLD_SIZE": str(len(hosts))}
    started = [
        host.start("python", "-c", SAVE, numbers.url, RANK=str(rank), **environment)
        for rank, host in enumerate(hosts)
    ]
    finish(started)
    check_saved(hosts, numbers, ["one0", "two1"])
    check_shares(store, hosts, numbers)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("program", "processes"),
    [
        pytest.param(EXAMPLES / "train_torchrun.py", 1, id="exact order, 1 rank a host"),
        pytest.param(EXAMPLES / "train_torchrun.py", 2, id="exact order"),
        pytest.param(PROGRAMS / "streaming.py", 2, id="elastic order"),
    ],
)
def test_shuffled_epochs_have_each_row_once_and_hosts_download_their_share_once(
    store: Store,
    hosts: list[Host],
    numbers: Numbers,
    cold: dict[str, str],
    program: Path,
    processes: int,
) -> None:
    store.forget()
    own = (
        [f"s3://bucket/{uuid.uuid4().hex}.pt"] if program.parent == EXAMPLES else ["elastic", "1gb"]
    )
    started = torchrun(
        hosts, program, numbers.url, *own, processes=processes, **store.environment, **cold
    )
    assert epochs(finish(started)) == [EACH_ROW_ONCE] * 3
    check_shares(store, hosts, numbers)


@pytest.mark.cluster
@pytest.mark.skipif(
    not shutil.which("mpirun"), reason="needs Open MPI: apt-get install openmpi-bin"
)
def test_open_mpi_ranks_read_each_row_once(
    store: Store, hosts: list[Host], numbers: Numbers, cold: dict[str, str]
) -> None:
    store.forget()
    environment = {**store.environment, **cold}
    mpirun(hosts, "python", "-c", SAVE, numbers.url, processes=2, **environment)
    check_saved(hosts, numbers, ["one0", "one1", "two2", "two3"])
    check_shares(store, hosts, numbers)


@pytest.mark.cluster
@pytest.mark.parametrize("order", ["exact", "elastic"])
@pytest.mark.parametrize(("part", "times"), [(2, 2), (4, 3)], ids=["its share", "half of it"])
def test_later_epochs_download_shards_evicted_from_limited_cache(
    store: Store,
    hosts: list[Host],
    numbers: Numbers,
    cold: dict[str, str],
    order: str,
    part: int,
    times: int,
) -> None:
    store.forget()
    arguments = (PROGRAMS / "streaming.py", numbers.url, order, sum(numbers.shard_bytes) // part)
    started = torchrun(hosts, *arguments, processes=1, **store.environment, **cold)
    assert epochs(finish(started)) == [EACH_ROW_ONCE] * 3
    check_shares(store, hosts, numbers, times)
