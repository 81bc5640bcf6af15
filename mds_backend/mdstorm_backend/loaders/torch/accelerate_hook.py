"""Where Accelerate asks: prepare a loader for it."""

from __future__ import annotations

import sys
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.torch.block_batches import source_of
from mdstorm_backend.loaders.torch.dataset_samples import reading_as
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.world import World

if TYPE_CHECKING:
    from mdstorm_backend.loaders.torch.accelerate_loader import PreparedLoader
    from mdstorm_backend.loaders.torch.streaming_data_loader import StreamingDataLoader

#: The method of `Accelerator` that asks whether a loader is prepared before it prepares it.
_ASKING = "prepare_data_loader"


def prepare_in_place(loader: StreamingDataLoader) -> bool:
    """Prepare `loader` if it is an `Accelerator` that is about to do so.

    Accelerate would make a loader of its own, which splits the samples one by one. It does not do
    so with one that is prepared, so this is the time for becoming such a one, in place: Accelerate
    returns the object that it was given.

    Returns
    -------
    bool
        Whether the loader is prepared now. It is not where somebody else asks, and where the
        dataset overrides ``__iter__``, or is another: its samples Accelerate may split.
    """
    accelerate = sys.modules.get("accelerate")
    asking = sys._getframe(2)  # above the property
    if accelerate is None or asking.f_code.co_name != _ASKING:
        return False
    if not loader._mdstorm.reads_blocks:
        return False
    accelerator = asking.f_locals.get("self")
    if not isinstance(accelerator, accelerate.Accelerator):
        return False
    placed = asking.f_locals.get("device_placement")
    prepared = _prepared(loader, accelerator, placed)
    # What the class forbids after its constructor, and what is of the other class, goes as well.
    loader.__dict__.clear()
    loader.__dict__.update(prepared.__dict__)
    loader.__class__ = type(prepared)  # type: ignore[assignment]
    return True


def _prepared(loader: StreamingDataLoader, accelerator: Any, placed: bool | None) -> PreparedLoader:
    from mdstorm_backend.loaders.torch.accelerate_loader import Preparation, PreparedLoader

    places = accelerator.device_placement if placed is None else placed
    return PreparedLoader(
        _with_share(loader, accelerator),
        Preparation(
            device=accelerator.device if places else None,
            non_blocking=accelerator.non_blocking,
            saves_state=accelerator.use_stateful_dataloader,
        ),
    )


def _with_share(loader: StreamingDataLoader, accelerator: Any) -> StreamingDataLoader:
    """Return a copy of the loader that reads this process's share."""
    source, batch_size = source_of(loader)._mdstorm, loader.batch_size
    assert batch_size is not None
    shared, is_told = source.shared(), source.is_told_its_share
    if accelerator.split_batches and not is_told:
        batch_size = _part_of_batch(batch_size, accelerator.num_processes)
    if not is_told and (mesh := accelerator._prepare_device_mesh()) is not None:
        shared = shared.in_order(shared.order.share_of(_world_of_data(mesh)))
    order = shared.order
    if (
        not is_told
        and isinstance(order, ExactOrder)
        and accelerator.even_batches
        and not loader.drop_last
        and source.num_epochs == 1
        and shared.options.transform is None
    ):
        shared = shared.in_order(replace(order, padded_to=batch_size))
    if shared is source and batch_size == loader.batch_size:
        return copy(loader)
    other = copy(loader)
    # PyTorch's class does not let them be set.
    other.__dict__.update(dataset=reading_as(loader.dataset, shared), batch_size=batch_size)
    other._mdstorm.runner = None
    if (state := _loaded_state(loader)) is not None:
        other.load_state_dict(state)
    return other


def _part_of_batch(batch_size: int, num_processes: int) -> int:
    if batch_size % num_processes:
        raise InvalidArgumentError(
            f"split_batches=True shares out batches of {batch_size} rows among {num_processes} "
            "processes, which does not divide them: choose a multiple of it as the batch size"
        )
    return batch_size // num_processes


def _world_of_data(mesh: Any) -> World:
    """Return this process's place in the dimensions of a mesh that read different rows."""
    rank, size = 0, 1
    for name, place in zip(mesh.mesh_dim_names, mesh.get_coordinate(), strict=True):
        if name.startswith("dp"):
            width = mesh[name].size()
            rank, size = rank * width + place, size * width
    return World(rank, size, source="the device mesh of Accelerate")


def _loaded_state(loader: StreamingDataLoader) -> dict[str, Any] | None:
    """Return the state that was loaded, of which nothing was delivered yet; None for none."""
    # The dataset may have loaded it too, but not before it has something to read.
    if loader.num_samples_yielded or "reading" not in vars(source_of(loader)._mdstorm):
        return None
    state = loader.state_dict()
    assert state is not None
    return state if state["epoch"] or state["sample_in_epoch"] else None
