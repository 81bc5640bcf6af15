"""Training frameworks on two hosts: each row is read once per epoch."""

import json
import shutil
from pathlib import Path

import pytest
from tests.kit.frameworks import import_framework
from tests.slow.cluster.conftest import EACH_ROW_ONCE, EXAMPLES, PROGRAMS, Numbers, epochs
from tests.slow.cluster.hosts import Host
from tests.slow.cluster.launchers import finish, torchrun
from tests.slow.cluster.store import Store
from tests.slow.trainers import launching
from tests.slow.trainers.conftest import ROWS, written
from tests.slow.trainers.launching import Run, each_once

pytestmark = pytest.mark.cluster

QUIET = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}


@pytest.fixture(scope="module")
def url(store: Store, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The dataset of tests/slow/trainers, uploaded to the store."""
    directory = tmp_path_factory.mktemp("trainers") / "data"
    written(directory, ROWS)
    for path in directory.iterdir():
        store.put(f"trainers/{path.name}", path.read_bytes())
    return "s3://bucket/trainers"


@pytest.fixture
def records(hosts: list[Host], tmp_path: Path) -> dict[str, str]:
    """Environment variables for programs that record rows, each on the disk of its host."""
    for host in hosts:
        (host.disk / "tmp" / tmp_path.name).mkdir()
    return {"MDSTORM_TEST_RECORDS": f"/tmp/{tmp_path.name}", **QUIET}


def collected(hosts: list[Host], records: dict[str, str], at: Path, output: str) -> Run:
    for host in hosts:
        directory = host.disk / records["MDSTORM_TEST_RECORDS"].lstrip("/")
        shutil.copytree(directory, at, dirs_exist_ok=True)
    return Run(at, output)


def test_lightning_reads_each_row_once(
    hosts: list[Host], store: Store, url: str, records: dict[str, str], tmp_path: Path
) -> None:
    import_framework("lightning")
    program = launching.PROGRAMS / "lightning_fit.py"
    options = ("--strategy=ddp", "--devices=1", "--nodes=2", "--epochs=2")
    started = torchrun(
        hosts, program, url, "module", *options, processes=1, **store.environment, **records
    )
    run = collected(hosts, records, tmp_path, finish(started))
    for part in ("train0", "train1", "train0_validation", "test", "predict"):
        assert run.recorded(part).rows == each_once(ROWS), part
        assert run.recorded(part).steps == [6, 6], part


def test_accelerate_reads_each_row_once(hosts: list[Host], store: Store, numbers: Numbers) -> None:
    import_framework("accelerate")
    program = PROGRAMS / "accelerate_epochs.py"
    started = torchrun(hosts, program, numbers.url, **store.environment, **QUIET)
    assert epochs(finish(started)) == [EACH_ROW_ONCE] * 3


def test_tensorflow_workers_read_each_row_once_in_equal_numbers_of_steps(
    hosts: list[Host], store: Store, url: str, records: dict[str, str], tmp_path: Path
) -> None:
    import_framework("tf_keras")
    workers = [f"{host.name}:23456" for host in hosts]
    program = (launching.PROGRAMS / "keras_strategies.py", url, "MultiWorkerMirroredStrategy")
    started = []
    for index, host in enumerate(hosts):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        variables = {**store.environment, **records, "TF_CONFIG": json.dumps(config)}
        started.append(host.start("python", *program, **variables))
    run = collected(hosts, records, tmp_path, finish(started))
    for part in ("evaluate auto", "distribute auto", "distribute sharded by TensorFlow"):
        assert run.recorded(part).rows == each_once(ROWS), part
        assert len(set(run.recorded(part).steps)) == 1, part
    assert run.recorded("from function").rows == each_once(ROWS)


def test_ray_train_reads_each_row_once(hosts: list[Host], store: Store, numbers: Numbers) -> None:
    import_framework("ray")
    environment = {**store.environment, **QUIET}
    options = ("--num-cpus=2", "--object-store-memory=80000000", "--disable-usage-stats")
    for host, place in zip(
        hosts, [("--head", "--port=6379"), ("--address=one:6379",)], strict=True
    ):
        address = f"--node-ip-address={host.address}"
        host.run("ray", "start", *place, address, *options, **environment)
    try:
        program = (EXAMPLES / "train_ray.py", numbers.url, "s3://bucket/results")
        out = hosts[0].run("python", *program, **environment)
    finally:
        for host in hosts:
            host.run("ray", "stop", "--force")
    assert epochs(out) == [EACH_ROW_ONCE]
