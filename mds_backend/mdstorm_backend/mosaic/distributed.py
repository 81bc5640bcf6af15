"""The world of this process, and what its process group can do.

Rank and sizes are those that the loaders use: see `mdstorm_backend.order.find_world`. Nothing here
makes a process group.
"""

from __future__ import annotations

import os
from typing import Any, TypeVar

from mdstorm_backend.base import require
from mdstorm_backend.order import find_world

_Object = TypeVar("_Object")


def get_rank() -> int:
    """Return the rank of this process, 0 without a launcher."""
    return _variable("RANK", lambda: find_world().rank)


def get_world_size() -> int:
    """Return the number of processes that train together, 1 without a launcher."""
    return _variable("WORLD_SIZE", lambda: find_world().size)


def get_local_rank() -> int:
    """Return the number of this process on its node, 0 without a launcher."""
    return _variable("LOCAL_RANK", lambda: find_world().local_rank)


def get_local_world_size() -> int:
    """Return the number of processes on this node, 1 without a launcher."""
    return _variable("LOCAL_WORLD_SIZE", lambda: find_world().local_size)


def barrier() -> None:
    """Wait for all processes of the group; without a group do nothing."""
    group = _group()
    if group is not None:
        group.barrier()


def broadcast(tensor: Any, src: int) -> None:
    """Overwrite `tensor` with that of rank `src`; without a group do nothing."""
    group = _group()
    if group is not None:
        group.broadcast(tensor, src)


def all_gather(tensor_list: list[Any], tensor: Any) -> None:
    """Fill `tensor_list` with the tensors of all ranks; without a group do nothing."""
    group = _group()
    if group is not None:
        group.all_gather(tensor_list, tensor)


def all_gather_object(obj: _Object) -> list[_Object]:
    """Return the objects of all ranks, which must be able to be pickled.

    Raises
    ------
    RuntimeError
        If the world has several processes and no group.
    """
    group, size = _group(), get_world_size()
    if group is not None:
        gathered: list[Any] = [None] * group.get_world_size()
        group.all_gather_object(gathered, obj)
        return gathered
    if size == 1:
        return [obj]
    raise RuntimeError(
        f"the world has {size} processes and no process group to gather objects with: call "
        "torch.distributed.init_process_group first"
    )


def _variable(name: str, otherwise: Any) -> int:
    """Return torchrun's variable, which MosaicML Streaming reads alone, or what a launcher says."""
    return int(os.environ[name]) if name in os.environ else int(otherwise())


def _group() -> Any:
    """Return `torch.distributed` if there is a process group."""
    require("torch")
    import torch.distributed

    is_there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed if is_there else None
