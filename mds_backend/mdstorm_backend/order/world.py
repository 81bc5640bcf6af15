"""Which process of how many this is, as launchers say it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass

from mdstorm_backend.base.errors import InvalidArgumentError

__all__ = ["HOROVOD_VARIABLES", "World", "find_world"]

#: Variables for rank and world size under Horovod, in the order in which they are tried.
HOROVOD_VARIABLES = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_VARIABLES = (("RANK", "WORLD_SIZE"), *HOROVOD_VARIABLES)
#: Variable for the processes per node by the one for the world size, where the launcher sets one.
_LOCAL_SIZES = {
    "WORLD_SIZE": "LOCAL_WORLD_SIZE",
    "HOROVOD_SIZE": "HOROVOD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
}


@dataclass(frozen=True)
class World:
    """Rank of this process among `size` processes, `local_size` of them on each node.

    Ranks are numbered node by node. Only the ``elastic`` order looks at nodes.

    Attributes
    ----------
    rank, size, local_size : int
        `local_size` divides `size`.

    Raises
    ------
    InvalidArgumentError
        If there is no such rank, or the nodes would not have equally many.
    """

    rank: int = 0
    size: int = 1
    local_size: int = 1

    def __post_init__(self) -> None:
        if self.size < 1 or not 0 <= self.rank < self.size:
            raise InvalidArgumentError(
                f"rank {self.rank} of {self.size} does not exist: the rank must be from 0 to one "
                "less than the world size"
            )
        if self.local_size < 1 or self.size % self.local_size:
            raise InvalidArgumentError(
                f"{self.size} ranks cannot be on nodes of {self.local_size} ranks each: the world "
                "size must be a multiple of the number of ranks per node"
            )

    @property
    def num_nodes(self) -> int:
        """How many nodes there are."""
        return self.size // self.local_size

    @property
    def node(self) -> int:
        """The node of this rank."""
        return self.rank // self.local_size

    @property
    def local_rank(self) -> int:
        """Number of this rank on its node."""
        return self.rank % self.local_size

    def replicated(self, replication: int | None) -> World:
        """World in which each `replication` consecutive ranks count as one and see the same.

        Nodes keep their number of ranks if that divides the ranks which are left; otherwise one
        node has them all. None and 1 change nothing.

        Raises
        ------
        InvalidArgumentError
            If `replication` is less than 1 or does not divide the world size.
        """
        if replication is None:
            return self
        if replication < 1 or self.size % replication:
            raise InvalidArgumentError(
                f"replication={replication} does not divide the {self.size} ranks of the world: "
                "use a positive divisor of the world size"
            )
        size = self.size // replication
        return World(
            self.rank // replication, size, size if size % self.local_size else self.local_size
        )


def find_world() -> World:
    """Ask an initialised ``torch.distributed``, then the variables of the usual launchers.

    The number of ranks per node comes from ``LOCAL_WORLD_SIZE`` for torch, else from Horovod's or
    Open MPI's variable; it is 1 where there is none. Nothing is imported and no process group is
    made.

    Raises
    ------
    InvalidArgumentError
        If a variable is not an integer, ``TF_CONFIG`` no description of a cluster, or the world
        makes no sense.
    """
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return _world(distributed.get_rank(), distributed.get_world_size(), "WORLD_SIZE")
    for rank, size in _VARIABLES:
        if rank in os.environ and size in os.environ:
            return _world(_integer(rank), _integer(size), size, rank)
    return _from_tf_config(os.environ.get("TF_CONFIG", ""))


def _world(rank: int, size: int, variable: str, *variables: str) -> World:
    local = _LOCAL_SIZES.get(variable, "")
    try:
        return World(rank, size, _integer(local) if local in os.environ else 1)
    except InvalidArgumentError as error:
        sources = ", ".join([*variables, variable, *([local] if local else [])])
        raise InvalidArgumentError(f"{error}. Check what the launcher set: {sources}") from error


def _integer(variable: str) -> int:
    try:
        return int(os.environ[variable])
    except ValueError as error:
        raise InvalidArgumentError(
            f"the environment variable {variable} is {os.environ[variable]!r} and not an integer: "
            "correct it, or unset it to read all rows"
        ) from error


def _from_tf_config(text: str) -> World:
    """Number the workers of TensorFlow's ``TF_CONFIG``, the chief first."""
    if not text:
        return World()
    try:
        config = json.loads(text)
        cluster, task = config.get("cluster", {}), config.get("task", {})
        member = (task.get("type"), int(task.get("index", 0)))
        jobs = {job: len(cluster.get(job, [])) for job in ("chief", "worker")}
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"the environment variable TF_CONFIG does not describe a cluster ({error}): correct "
            "it, or unset it to read all rows"
        ) from error
    members = [(job, i) for job, size in jobs.items() for i in range(size)]
    return World(members.index(member), len(members)) if member in members else World()
