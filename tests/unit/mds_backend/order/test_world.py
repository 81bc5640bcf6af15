import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order.world import World, find_world, given_world

#: Launcher variables for rank, world size and, if the launcher sets it, ranks per node.
LAUNCHERS = [
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
]
#: Variables set by ``srun`` in the second of four processes on two nodes.
STEP = {
    "SLURM_PROCID": "1",
    "SLURM_NTASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}
#: Variables set for plain ``python`` in a batch script with four tasks.
BATCH_SCRIPT = {
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "4",
    "SLURM_NPROCS": "4",
    "SLURM_LOCALID": "0",
    "SLURM_TASKS_PER_NODE": "2(x2)",
    "SLURM_NTASKS_PER_NODE": "2",
}


Launch = Callable[[dict[str, str]], None]


@pytest.fixture(autouse=True)
def launch(monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Unset the variables of all launchers, and return a function that sets variables."""
    for variable in ["TF_CONFIG", *STEP, *BATCH_SCRIPT, *chain.from_iterable(LAUNCHERS)]:
        monkeypatch.delenv(variable, raising=False)

    def launch(variables: dict[str, str]) -> None:
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)

    return launch


@contextmanager
def process_group(directory: Path) -> Iterator[None]:
    """A process group that contains only this process."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{directory}/store", rank=0, world_size=1
    )
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("variables", LAUNCHERS, ids=lambda names: names[0])
def test_world_is_read_from_the_active_launchers_variables(
    variables: tuple[str, ...], launch: Launch
) -> None:
    for _, _, *local_size in LAUNCHERS:  # from launchers that did not start this process
        launch(dict.fromkeys(local_size, "3"))
    launch(dict(zip(variables, ("5", "8", "4"), strict=False)))
    assert find_world() == World(5, 8, 4 if len(variables) == 3 else 1)
    assert f"'s variables {variables[0]} and {variables[1]}" in find_world().source


@pytest.mark.parametrize(
    ("one", "other"), [names[:2] for names in LAUNCHERS] + [names[1::-1] for names in LAUNCHERS[1:]]
)
def test_rank_or_world_size_alone_raises_error(one: str, other: str, launch: Launch) -> None:
    launch({one: "2"})
    message = f"{one} is '2', and {other} is not set.*unset {one} to read all rows"
    with pytest.raises(InvalidArgumentError, match=message):
        find_world()


def test_world_size_set_by_lightning_is_ignored_until_a_process_group_exists(
    launch: Launch, tmp_path: Path
) -> None:
    # Variables that Lightning sets in the processes it starts.
    launch({"WORLD_SIZE": "2", "LOCAL_RANK": "1", "NODE_RANK": "0"})
    assert find_world().known() == World(0, 1)
    with process_group(tmp_path):
        assert find_world().source == "the process group of torch.distributed"


@pytest.mark.parametrize(
    ("per_node", "local_size"), [("4", 4), ("2(x2)", 2), ("3,1", 1), ("1(x2),2", 1), ("", 1)]
)
def test_srun_step_has_local_size_1_if_nodes_have_unequal_task_counts(
    per_node: str, local_size: int, launch: Launch
) -> None:
    launch({**STEP, "SLURM_STEP_TASKS_PER_NODE": per_node})
    assert find_world() == World(1, 4, local_size)
    assert find_world().source == "SLURM's variables SLURM_PROCID and SLURM_STEP_NUM_TASKS"
    # The step has only some of the job's tasks.
    launch({"SLURM_NTASKS": "8", "SLURM_NTASKS_PER_NODE": "4"})
    assert find_world() == World(1, 4, local_size)
    launch({"SLURM_STEP_ID": "4294967280"})  # the last one of a step
    assert find_world() == World(1, 4, local_size)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        BATCH_SCRIPT,
        {**BATCH_SCRIPT, "SLURM_STEP_ID": "4294967291", "SLURM_STEP_NUM_TASKS": "1"},
        {**STEP, "SLURM_STEP_ID": "4294967291"},
        {**STEP, "SLURM_STEP_ID": "4294967290"},
        {**STEP, "SLURM_STEP_ID": "4294967281"},
        {**STEP, "SLURM_STEP_ID": "batch"},
        {**STEP, "SLURM_STEP_ID": "extern"},
        {**STEP, "SLURM_STEP_NUM_TASKS": "1"},
        {"WORLD_SIZE": "1"},
    ],
)
def test_process_without_launcher_or_in_slurm_shell_is_a_single_rank_world(
    environment: dict[str, str], launch: Launch
) -> None:
    launch(environment)
    assert find_world() == World(0, 1)


def test_ranks_are_numbered_node_by_node() -> None:
    worlds = [World(rank, 6, 3) for rank in range(6)]
    assert [world.local_rank for world in worlds] == [0, 1, 2, 0, 1, 2]
    assert {world.num_nodes for world in worlds} == {2}
    assert World(3, 4).num_nodes == 4


@pytest.mark.parametrize(
    ("world", "replication", "expected"),
    [
        (World(3, 8, 4), None, World(3, 8, 4)),
        (World(3, 8, 4), 1, World(3, 8, 4)),
        (World(5, 8, 4), 2, World(2, 4, 4)),
        (World(13, 16, 4), 2, World(6, 8, 4)),
        (World(7, 8, 4), 4, World(1, 2, 2)),  # one node runs both ranks
        (World(5, 6, 3), 3, World(1, 2, 2)),
        (World(5, 12, 4), 2, World(2, 6, 6)),  # 6 ranks cannot be split into nodes of 4
    ],
)
def test_ranks_that_read_the_same_samples_count_as_one_rank(
    world: World, replication: int | None, expected: World
) -> None:
    found = replace(world, source="us").replicated(replication)
    assert (found, found.source) == (expected, "us")


@pytest.mark.parametrize("replication", [0, -1, 3])
def test_replication_that_does_not_divide_world_size_raises_error(replication: int) -> None:
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
        ({"type": "worker"}, World(1, 3)),
        ({"type": "ps", "index": 0}, World(0, 1)),
        ({"type": "evaluator", "index": 0}, World(0, 1)),
        ({}, World(0, 1)),
    ],
    ids=str,
)
def test_tensorflow_workers_are_numbered_after_the_chief(
    task: dict[str, object], world: World, launch: Launch
) -> None:
    launch({"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": task})})
    assert find_world() == world


NO_MEMBER = json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 2}})


def ranks(rank: str, size: str, local_size: str) -> dict[str, str]:
    """The variables set by torchrun."""
    return {"RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": local_size}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (ranks("4", "4", "2"), "rank 4 of 4 .*launcher set: RANK, WORLD_SIZE, LOCAL_WORLD_"),
        (ranks("-1", "4", "2"), "rank -1 of 4 does not exist"),
        (ranks("0", "0", "1"), "rank 0 of 0 does not exist"),
        (ranks("0", "3", "2"), "3 ranks cannot be on nodes of 2 ranks each"),
        (ranks("0", "4", "0"), "4 ranks cannot be on nodes of 0 ranks each"),
        (ranks("0", "4", "two"), "LOCAL_WORLD_SIZE is 'two' and not an integer.*unset it"),
        (ranks("two", "1", "1"), "RANK is 'two' and not an integer.*unset it"),
        (ranks("0", "two", "1"), "WORLD_SIZE is 'two' and not an integer.*unset it"),
        ({**STEP, "SLURM_PROCID": "4"}, "rank 4 of 4.*: SLURM_PROCID, SLURM_STEP_NUM_TASKS"),
        ({**STEP, "SLURM_STEP_TASKS_PER_NODE": "3(x2)"}, "4 ranks cannot be on nodes of 3"),
        *(
            ({"TF_CONFIG": text}, "TF_CONFIG")
            for text in ("{", "[]", '{"task": {"index": "x"}}', '{"cluster": []}')
        ),
        ({"TF_CONFIG": NO_MEMBER}, r"TF_CONFIG describes .*worker number 2.* lists 2"),
    ],
)
def test_invalid_world_raises_error_naming_the_variables(
    environment: dict[str, str], message: str, launch: Launch
) -> None:
    launch(environment)
    with pytest.raises(InvalidArgumentError, match=message):
        find_world()


def test_torch_distributed_takes_precedence_over_the_environment(
    launch: Launch, tmp_path: Path
) -> None:
    launch({"RANK": "5", "WORLD_SIZE": "7"})
    assert find_world() == World(5, 7)
    with process_group(tmp_path):
        assert find_world() == World(0, 1)
        launch({"LOCAL_WORLD_SIZE": "1"})
        assert find_world() == World(0, 1)
        # This describes the seven ranks in the environment, so it is ignored.
        launch({"LOCAL_WORLD_SIZE": "2"})
        assert find_world() == World(0, 1)
        launch({"WORLD_SIZE": "1"})
        with pytest.raises(InvalidArgumentError, match="launcher set: LOCAL_WORLD_SIZE"):
            find_world()


def test_finding_the_world_imports_no_framework() -> None:
    program = (
        "import sys; from mdstorm_backend.order.world import find_world; find_world();"
        "sys.exit(any(name in sys.modules for name in ('torch', 'tensorflow', 'horovod')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


class Mesh:
    """The part of ``DeviceMesh`` used by worlds, with dimensions of 2, 3 and 2 ranks."""

    ndim = 3

    def __init__(self, *names: str, coordinate: list[int] | None) -> None:
        self.mesh_dim_names = names or None
        self._coordinate = coordinate

    def get_coordinate(self) -> list[int] | None:
        return self._coordinate

    def size(self, dimension: int) -> int:
        return (2, 3, 2)[dimension]


@pytest.mark.parametrize(
    ("names", "expected"),
    [("shard", World(2, 3)), ("tp", World(0, 2)), (("replicate", "shard"), World(5, 6))],
)
def test_mesh_determines_the_rank_along_the_named_dimensions(
    names: str | tuple[str, ...], expected: World
) -> None:
    mesh = Mesh("replicate", "shard", "tp", coordinate=[1, 2, 0])
    assert given_world((mesh, names)) == expected


def test_one_dimensional_mesh_does_not_need_a_name() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Mesh, "ndim", 1)
        assert given_world(Mesh(coordinate=[1])) == World(1, 2)
    assert given_world((np.int64(1), 3)) == given_world(World(1, 3)) == World(1, 3)


@pytest.mark.parametrize(
    ("world", "text"),
    [
        ((3, 3), "rank 3 of 3 does not exist"),
        ("auto", "world must be \\(rank, size\\), .* found 'auto'"),
        ((1, 2, 3), "found \\(1, 2, 3\\)"),
        (Mesh("dp", "sp", "tp", coordinate=[0, 0, 0]), "has 3 dimensions: .* Pass world="),
        ((Mesh("dp", "sp", coordinate=[0, 0]), "pp"), "has no dimension 'pp'"),
        ((Mesh("dp", "sp", coordinate=None), "dp"), "this process is not in the mesh"),
    ],
)
def test_invalid_world_argument_raises_error(world: object, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        given_world(world)
