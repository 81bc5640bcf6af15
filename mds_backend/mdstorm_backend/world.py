"""Which process of how many this is, as launchers say it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass

from mdstorm_backend.errors import InvalidArgumentError

__all__ = ["World", "find_world"]

#: Variables for rank and world size, in the order in which they are tried.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


@dataclass(frozen=True)
class World:
    """Rank of this process among `size` processes."""

    rank: int = 0
    size: int = 1


def find_world() -> World:
    """Ask an initialised ``torch.distributed``, then the variables of the usual launchers.

    Nothing is imported and no process group is made.

    Raises
    ------
    InvalidArgumentError
        If a variable is not an integer.
    """
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return World(distributed.get_rank(), distributed.get_world_size())
    for rank, size in _VARIABLES:
        if rank in os.environ and size in os.environ:
            return World(_integer(rank), _integer(size))
    return _from_tf_config(os.environ.get("TF_CONFIG", ""))


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
    config = json.loads(text)
    cluster = config.get("cluster", {})
    members = [(job, i) for job in ("chief", "worker") for i in range(len(cluster.get(job, [])))]
    task = config.get("task", {})
    member = (task.get("type"), int(task.get("index", 0)))
    return World(members.index(member), len(members)) if member in members else World()
