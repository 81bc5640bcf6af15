from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.world import World, find_world

LAUNCHERS = [
    ("RANK", "WORLD_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
]


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for pair in LAUNCHERS:
        for variable in pair:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.delenv("TF_CONFIG", raising=False)


def test_without_a_launcher_this_process_is_alone() -> None:
    assert find_world() == World(0, 1)


@pytest.mark.parametrize(("rank", "size"), LAUNCHERS)
def test_the_variables_of_each_launcher_are_read(
    rank: str, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(rank, "2")
    assert find_world() == World(0, 1)
    monkeypatch.setenv(size, "4")
    assert find_world() == World(2, 4)


def test_the_first_launcher_in_the_list_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    for i, (rank, size) in enumerate(LAUNCHERS):
        monkeypatch.setenv(rank, str(i))
        monkeypatch.setenv(size, "9")
    assert find_world() == World(0, 9)


@pytest.mark.parametrize("variable", ["RANK", "WORLD_SIZE"])
def test_a_variable_that_is_no_integer_is_named(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv(variable, "two")
    with pytest.raises(InvalidArgumentError, match=f"{variable} is 'two' and not an integer") as e:
        find_world()
    assert "unset it" in str(e.value)


CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


@pytest.mark.parametrize(
    ("task", "world"),
    [
        ({"type": "chief", "index": 0}, World(0, 3)),
        ({"type": "worker", "index": 0}, World(1, 3)),
        ({"type": "worker", "index": "1"}, World(2, 3)),
        ({"type": "ps", "index": 0}, World(0, 1)),
        ({"type": "evaluator", "index": 0}, World(0, 1)),
        ({}, World(0, 1)),
    ],
    ids=str,
)
def test_workers_of_tensorflow_are_counted_after_the_chief(
    task: dict[str, object], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER, "task": task}))
    assert find_world() == world


@pytest.mark.parametrize("text", ["{", "[]", '{"task": {"index": "x"}}', '{"cluster": []}'])
def test_a_tf_config_that_describes_no_cluster_is_named(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InvalidArgumentError, match="TF_CONFIG"):
        find_world()


def test_torch_distributed_goes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "7")
    assert find_world() == World(5, 7)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        assert find_world() == World(0, 1)
    finally:
        torch.distributed.destroy_process_group()


def test_asking_imports_no_framework() -> None:
    program = (
        "import sys; from mdstorm_backend.world import find_world; find_world();"
        "sys.exit(any(name in sys.modules for name in ('torch', 'tensorflow', 'horovod')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
