from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mdstorm_backend.base.errors import InvalidArgumentError
from mdstorm_backend.order.world import World, find_world

LAUNCHERS = [
    ("RANK", "WORLD_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
]
LOCAL_SIZES = ["LOCAL_WORLD_SIZE", "HOROVOD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"]


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [variable for pair in LAUNCHERS for variable in pair] + LOCAL_SIZES:
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


@pytest.mark.parametrize(("launcher", "local_size"), [*zip(LAUNCHERS, LOCAL_SIZES, strict=False)])
def test_ranks_per_node_come_from_the_same_launcher(
    launcher: tuple[str, str], local_size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in LOCAL_SIZES:
        monkeypatch.setenv(variable, "4" if variable == local_size else "3")
    for variable, value in zip(launcher, ("5", "8"), strict=True):
        monkeypatch.setenv(variable, value)
    assert find_world() == World(5, 8, 4)


def test_pmi_has_one_rank_per_node(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in zip((*LAUNCHERS[3], *LOCAL_SIZES), "28444", strict=True):
        monkeypatch.setenv(variable, value)
    assert find_world() == World(2, 8, 1)


@pytest.mark.parametrize(
    ("rank", "size", "local_size", "message"),
    [
        ("4", "4", "2", "rank 4 of 4 does not exist.*launcher set: RANK, WORLD_SIZE, LOCAL_WORLD_"),
        ("-1", "4", "2", "rank -1 of 4 does not exist"),
        ("0", "0", "1", "rank 0 of 0 does not exist"),
        ("0", "3", "2", "3 ranks cannot be on nodes of 2 ranks each"),
        ("0", "4", "0", "4 ranks cannot be on nodes of 0 ranks each"),
        ("0", "4", "two", "LOCAL_WORLD_SIZE is 'two' and not an integer"),
    ],
)
def test_a_world_that_cannot_be_is_refused_with_its_variables(
    rank: str, size: str, local_size: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", size)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", local_size)
    with pytest.raises(InvalidArgumentError, match=message):
        find_world()


def test_ranks_are_numbered_node_by_node() -> None:
    worlds = [World(rank, 6, 3) for rank in range(6)]
    assert [(world.node, world.local_rank) for world in worlds] == [
        (node, rank) for node in range(2) for rank in range(3)
    ]
    assert {world.num_nodes for world in worlds} == {2}
    assert World(3, 4).num_nodes == 4


@pytest.mark.parametrize(
    ("world", "replication", "expected"),
    [
        (World(3, 8, 4), None, World(3, 8, 4)),
        (World(3, 8, 4), 1, World(3, 8, 4)),
        (World(5, 8, 4), 2, World(2, 4, 4)),
        (World(13, 16, 4), 2, World(6, 8, 4)),
        (World(7, 8, 4), 4, World(1, 2, 2)),  # one node has them all
        (World(5, 6, 3), 3, World(1, 2, 2)),
    ],
)
def test_replicated_ranks_count_as_one(
    world: World, replication: int | None, expected: World
) -> None:
    assert world.replicated(replication) == expected


@pytest.mark.parametrize("replication", [0, -1, 3])
def test_a_replication_that_does_not_divide_the_world_is_refused(replication: int) -> None:
    with pytest.raises(
        InvalidArgumentError, match=f"replication={replication} does not divide the 4 ranks"
    ):
        World(0, 4).replicated(replication)


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
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
        assert find_world() == World(0, 1)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
        with pytest.raises(InvalidArgumentError, match="launcher set: WORLD_SIZE, LOCAL_WORLD_S"):
            find_world()
    finally:
        torch.distributed.destroy_process_group()


def test_asking_imports_no_framework() -> None:
    program = (
        "import sys; from mdstorm_backend.order.world import find_world; find_world();"
        "sys.exit(any(name in sys.modules for name in ('torch', 'tensorflow', 'horovod')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
