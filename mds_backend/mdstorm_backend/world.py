"""Which process of how many this is, as launchers say it."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass

from mdstorm_backend.errors import InvalidArgumentError

__all__ = ["HOROVOD_VARIABLES", "World", "find_world"]

#: Variables for rank and world size under Horovod, in the order in which they are tried.
HOROVOD_VARIABLES = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_VARIABLES = (("RANK", "WORLD_SIZE"), *HOROVOD_VARIABLES)


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
        If a variable is not an integer, or ``TF_CONFIG`` no description of a cluster.
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
