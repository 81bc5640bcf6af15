"""`World`: the rank of this process and the number of processes that train together.

`find_world` takes them from the launcher (torchrun, Horovod, MPI, SLURM, TensorFlow …) through its
process group or environment variables; `given_world` takes them from an argument or a device mesh.
Orders use them to select the rows of this rank.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mdstorm_backend.base.checks import is_integer
from mdstorm_backend.errors import InvalidArgumentError


class _Pair(NamedTuple):
    """A launcher's environment variables: rank, world size and, if any, ranks per node."""

    launcher: str
    rank: str
    size: str
    local_size: str = ""


#: TorchDistributor, Accelerate, DeepSpeed and Ray Train set the same variables.
_TORCH = _Pair("torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
_MPI = (
    _Pair("Horovod", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"),
    _Pair(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Pair("PMI", "PMI_RANK", "PMI_SIZE"),
)
_SLURM = _Pair("SLURM", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
#: Higher step ids do not belong to ``srun``, but to batch scripts, interactive shells and others.
_LAST_STEP_OF_SRUN = 0xFFFFFFF0


@dataclass(frozen=True)
class World:
    """Rank of this process among `size` processes, `local_size` of them on each node.

    Ranks are numbered node by node. Only the ``elastic`` order depends on nodes.

    Attributes
    ----------
    rank, size, local_size : int
        `local_size` must divide `size`.
    source : str
        Origin of these values, for messages, such as ``torchrun's variables RANK and WORLD_SIZE``;
        empty if there is no launcher.
    unknown : str
        The error that `known` raises, if this process is one of several and its rank is unknown.

    Raises
    ------
    InvalidArgumentError
        If there is no such rank, or nodes would have different numbers of ranks.
    """

    rank: int = 0
    size: int = 1
    local_size: int = 1
    source: str = field(default="", compare=False)
    unknown: str = field(default="", compare=False)

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

    def known(self) -> World:
        """Return this world, of which a share can be taken.

        Raises
        ------
        InvalidArgumentError
            If the rank of this process is unknown.
        """
        if self.unknown:
            raise InvalidArgumentError(self.unknown)
        return self

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.size // self.local_size

    @property
    def local_rank(self) -> int:
        """Number of this rank on its node."""
        return self.rank % self.local_size

    def replicated(self, replication: int | None) -> World:
        """Return the world in which every `replication` consecutive ranks count as one.

        Nodes keep their number of ranks if it divides the remaining world size; otherwise, all
        ranks count as one node. None and 1 have no effect.

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
        local_size = size if size % self.local_size else self.local_size
        return replace(self, rank=self.rank // replication, size=size, local_size=local_size)


def given_world(world: object) -> World:
    """Return the world that a user has passed, for example to `StreamingDataset`.

    Parameters
    ----------
    world : World, (int, int), DeviceMesh or (DeviceMesh, str or sequence of str)
        Rank and size; a PyTorch ``DeviceMesh`` with one dimension; or a mesh with several
        dimensions, and the names of the dimensions along which processes read different rows, such
        as ``(mesh, "dp")`` and ``(mesh, ("dp_replicate", "dp_shard"))``.

    Raises
    ------
    InvalidArgumentError
        If there is no such rank, the mesh has no such dimension, or this process is not in it.
    """
    if isinstance(world, World):
        return world
    mesh, names = world if isinstance(world, tuple) and len(world) == 2 else (world, None)
    if is_integer(mesh) and is_integer(names):
        return World(int(mesh), int(names), source="the argument world")
    if not hasattr(mesh, "get_coordinate"):
        raise InvalidArgumentError(
            "world must be (rank, size), a DeviceMesh with one dimension, or (mesh, name) with the "
            "name of the dimension along which processes read different rows, found "
            f"{world!r}"
        )
    return _of_mesh(mesh, names)


def _of_mesh(mesh: Any, names: Any) -> World:
    """Return the world of this process along the named dimensions of a mesh."""
    dimensions = list(mesh.mesh_dim_names or range(mesh.ndim))
    wanted = [names] if isinstance(names, str) else list(dimensions if names is None else names)
    unknown = [name for name in wanted if name not in dimensions]
    if unknown or (names is None and len(dimensions) > 1):
        found = f"no dimension {unknown[0]!r}" if unknown else f"{len(dimensions)} dimensions"
        raise InvalidArgumentError(
            f"the mesh has {found}: it has {dimensions}. Pass world=(mesh, name), with the name of "
            "the dimension along which processes read different rows"
        )
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise InvalidArgumentError(
            "this process is not in the mesh passed as world=…, so it has no share of the rows: "
            "pass a mesh of all processes that read"
        )
    rank, size = 0, 1
    for name in wanted:
        dimension = dimensions.index(name)
        width = mesh.size(dimension)
        rank, size = rank * width + coordinate[dimension], size * width
    return World(rank, size, source="the device mesh")


def find_world() -> World:
    """Return the rank and world size that the innermost launcher assigned to this process.

    The first of these that is present decides: an initialized ``torch.distributed``; the variables
    of torchrun, Horovod, Open MPI and PMI; SLURM's variables within an ``srun`` step with more than
    one task; ``TF_CONFIG``. Nothing is imported and no process group is created.

    If there is only a ``WORLD_SIZE`` above 1, as in jobs of ``databricks air run``, the result has
    rank 0 and size 1, and `World.known` raises an error. Lightning sets ``LOCAL_RANK`` also, in
    processes that get their rank later, with their process group.

    The number of ranks per node is the launcher's, or 1 if the launcher does not set it.

    Raises
    ------
    InvalidArgumentError
        If a launcher's variables are inconsistent: a rank without a size or beyond it, a variable
        that is not an integer, or a ``TF_CONFIG`` that does not describe a cluster.
    """
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return _of_group(distributed.get_rank(), distributed.get_world_size())
    if _TORCH.rank in os.environ:
        return _from_pair(_TORCH)
    for pair in _MPI:
        if pair.rank in os.environ or pair.size in os.environ:
            return _from_pair(pair)
    if _is_in_step_of_srun():
        per_node = os.environ.get("SLURM_STEP_TASKS_PER_NODE", "")
        found = re.fullmatch(r"(\d+)(\(x\d+\))?", per_node)
        # Use 1 if nodes have different numbers of tasks.
        return _from_pair(_SLURM, 1 if found is None else int(found[1]))
    if text := os.environ.get("TF_CONFIG"):
        return _from_tf_config(text)
    size = os.environ.get(_TORCH.size, "")
    if "LOCAL_RANK" in os.environ or not size.isdecimal() or int(size) <= 1:
        return World()
    return World(unknown=_incomplete(_TORCH, _TORCH.size, _TORCH.rank))


def _of_group(rank: int, size: int) -> World:
    source, local_size = "the process group of torch.distributed", 1
    # The variables may be inherited from a process of an outer world, which started this one.
    if os.environ.get(_TORCH.size, str(size)) == str(size) and _TORCH.local_size in os.environ:
        local_size = _integer(_TORCH.local_size)
    return _checked(source, _TORCH.local_size, rank, size, local_size)


def _from_pair(pair: _Pair, local_size: int = 1) -> World:
    for one, other in ((pair.rank, pair.size), (pair.size, pair.rank)):
        if other not in os.environ:
            raise InvalidArgumentError(_incomplete(pair, one, other))
    if pair.local_size in os.environ:
        local_size = _integer(pair.local_size)
    variables = ", ".join(filter(None, pair[1:]))
    source = f"{pair.launcher}'s variables {pair.rank} and {pair.size}"
    return _checked(source, variables, _integer(pair.rank), _integer(pair.size), local_size)


def _incomplete(pair: _Pair, one: str, other: str) -> str:
    """Return the error message for a launcher's variables of which only `one` is set."""
    return (
        f"the environment variable {one} is {os.environ[one]!r}, and {other} is not set, so this "
        f"process's share of the rows is unknown: start the program with {pair.launcher}, which "
        f"sets both, or unset {one} to read all rows"
    )


def _checked(source: str, variables: str, rank: int, size: int, local_size: int) -> World:
    try:
        return World(rank, size, local_size, source)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{error}. Check what the launcher set: {variables} ({source})"
        ) from error


def _is_in_step_of_srun() -> bool:
    """Whether ``srun`` started this process as one of several tasks, unlike a batch script."""
    step, tasks = (os.environ.get(name, "") for name in ("SLURM_STEP_ID", _SLURM.size))
    is_of_srun = step.isdecimal() and int(step) <= _LAST_STEP_OF_SRUN
    return is_of_srun and tasks.isdecimal() and int(tasks) > 1


def _integer(variable: str) -> int:
    try:
        return int(os.environ[variable])
    except ValueError as error:
        raise InvalidArgumentError(
            f"the environment variable {variable} is {os.environ[variable]!r} and not an integer: "
            "correct it, or unset it to read all rows"
        ) from error


def _from_tf_config(text: str) -> World:
    """Return the world described by TensorFlow's ``TF_CONFIG``, where the chief has rank 0."""
    try:
        config = json.loads(text)
        cluster, task = config.get("cluster", {}), config.get("task", {})
        kind, index = str(task.get("type")), int(task.get("index", 0))
        jobs = {job: len(cluster.get(job, [])) for job in ("chief", "worker")}
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"the environment variable TF_CONFIG does not describe a cluster ({error}): correct "
            "it, or unset it to read all rows"
        ) from error
    if kind not in jobs or not any(jobs.values()):  # for example an evaluator, which reads all rows
        return World()
    if not 0 <= index < jobs[kind]:
        raise InvalidArgumentError(
            f"the environment variable TF_CONFIG describes this process as {kind} number {index}, "
            f"but lists {jobs[kind]} tasks of this kind, numbered from 0: correct it, or unset it "
            "to read all rows"
        )
    rank = index if kind == "chief" else jobs["chief"] + index
    return World(rank, sum(jobs.values()), source="TensorFlow's variable TF_CONFIG")
