"""Nodes, ranks and workers as numbers, as `Stream.get_shards` gets them."""

from __future__ import annotations

import sys
from typing import Any

from mdstorm_backend.order import World as Ranks
from mdstorm_backend.order import find_world


class World:
    """Where this process, or one of its workers, stands among all.

    Ranks are numbered node by node and workers rank by rank. All counts but those whose names end
    in ``_per_node`` and ``_per_rank`` are of the whole world.

    Parameters
    ----------
    num_nodes : int
        Number of nodes.
    ranks_per_node : int
        Number of ranks on each.
    workers_per_rank : int
        Number of workers of each rank; 1 also stands for reading without workers.
    worker : int
        Number of this worker in the world.

    Attributes
    ----------
    node, rank, rank_of_node, worker_of_node, worker_of_rank : int
        Where this worker is.
    num_ranks, num_workers, workers_per_node : int
        What follows from the counts.
    is_multinode, is_leader, is_local_leader : bool
        Whether there are several nodes; whether this worker is the first one, of the world or of
        its node.
    """

    def __init__(
        self, num_nodes: int, ranks_per_node: int, workers_per_rank: int, worker: int
    ) -> None:
        self.num_nodes = num_nodes
        self.ranks_per_node = ranks_per_node
        self.workers_per_rank = workers_per_rank
        self.worker = worker

        self.workers_per_node = ranks_per_node * workers_per_rank
        self.num_ranks = num_nodes * ranks_per_node
        self.num_workers = num_nodes * self.workers_per_node

        self.node, self.worker_of_node = divmod(worker, self.workers_per_node)
        self.rank, self.worker_of_rank = divmod(worker, workers_per_rank)
        self.rank_of_node = self.rank % ranks_per_node

        self.is_multinode = num_nodes > 1
        self.is_leader = worker == 0
        self.is_local_leader = self.worker_of_node == 0

    @classmethod
    def detect(cls) -> World:
        """Return the place of this process, or of the PyTorch worker that it is."""
        ranks = find_world()
        number, count = _worker_info()
        return cls(ranks.num_nodes, ranks.local_size, count, ranks.rank * count + number)

    def to_json(self) -> dict[str, Any]:
        """Return all attributes by name."""
        return dict(vars(self))

    def copy(self) -> World:
        """Return an equal one."""
        return World(self.num_nodes, self.ranks_per_node, self.workers_per_rank, self.worker)

    def replicate(self, replication: int) -> World:
        """Return the world in which every `replication` consecutive ranks count as one.

        Raises
        ------
        InvalidArgumentError
            If `replication` is less than 1 or does not divide the ranks. A `ValueError`.
        """
        ranks = Ranks(self.rank, self.num_ranks, self.ranks_per_node).replicated(replication)
        worker = ranks.rank * self.workers_per_rank + self.worker_of_rank
        return World(ranks.num_nodes, ranks.local_size, self.workers_per_rank, worker)

    def detect_workers(self) -> World:
        """Return the same rank, with the number and the count of its workers found anew."""
        number, count = _worker_info()
        return World(self.num_nodes, self.ranks_per_node, count, self.rank * count + number)


def _worker_info() -> tuple[int, int]:
    """Return the number of this PyTorch worker and their count; 0 of 1 outside of workers."""
    torch = sys.modules.get("torch")
    info = None if torch is None else torch.utils.data.get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)
