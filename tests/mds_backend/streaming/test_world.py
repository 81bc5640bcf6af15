"""`streaming.base.world` and `streaming.base.distributed`."""

import pytest

from mdstorm_backend.streaming.base import distributed
from mdstorm_backend.streaming.base.world import World


def test_numbers_follow_from_the_worker() -> None:
    world = World(num_nodes=3, ranks_per_node=2, workers_per_rank=4, worker=13)
    assert (world.node, world.rank, world.rank_of_node) == (1, 3, 1)
    assert (world.worker_of_node, world.worker_of_rank) == (5, 1)
    assert (world.num_ranks, world.num_workers, world.workers_per_node) == (6, 24, 8)
    assert (world.is_multinode, world.is_leader, world.is_local_leader) == (True, False, False)


def test_ranks_that_count_as_one() -> None:
    world = World(num_nodes=2, ranks_per_node=4, workers_per_rank=2, worker=11).replicate(2)
    assert (world.num_ranks, world.num_nodes, world.rank, world.worker) == (4, 1, 2, 5)
    with pytest.raises(ValueError, match="replication"):
        world.replicate(3)


def test_the_launcher_says_where_this_process_is(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {"RANK": 5, "WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 4, "LOCAL_RANK": 1}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    world = World.detect()
    assert (world.rank, world.num_nodes, world.rank_of_node) == (5, 2, 1)
    assert distributed.get_local_rank() == 1


def test_objects_cannot_be_gathered_without_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    assert distributed.all_gather_object(5) == [5]
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="no process group"):
        distributed.all_gather_object(5)
