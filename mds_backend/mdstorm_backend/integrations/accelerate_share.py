"""Prepare a loader as Accelerate would, but with the share of the rows that it reads itself."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

from accelerate.state import PartialState
from torch.utils.data import IterableDataset

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.integrations.prepared_loader import PreparedLoader
from mdstorm_backend.loaders.torch.dataset_samples import reading_as
from mdstorm_backend.loaders.torch.loader_passes import source_of
from mdstorm_backend.loaders.torch.streaming_data_loader import StreamingDataLoader
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.world import given_world


def prepared(wanted: Mapping[str, Any]) -> PreparedLoader | None:
    """Return a loader for Accelerate over the share of this process; None if it shall make one.

    It shall where batches are not read as blocks, since the dataset overrides ``__iter__`` or is
    another: its samples may be split.

    Parameters
    ----------
    wanted : mapping
        The arguments of Accelerate's ``prepare_data_loader``.

    Raises
    ------
    InvalidArgumentError
        If Accelerate would split the share of a process again, or cannot split the batches.
    """
    loader = wanted["dataloader"]
    num_processes = wanted["num_processes"] or PartialState().num_processes
    if not isinstance(loader, StreamingDataLoader) or not loader._mdstorm.reads_blocks:
        _refuse_second_split(loader, num_processes)
        return None
    return PreparedLoader(
        _with_share(loader, num_processes, wanted),
        device=wanted["device"] if wanted["put_on_device"] else None,
        non_blocking=wanted["non_blocking"],
        use_stateful_dataloader=wanted["use_stateful_dataloader"],
    )


def _refuse_second_split(loader: Any, num_processes: int) -> None:
    read = getattr(loader, "dataset", None)
    while isinstance(read, IterableDataset) and not isinstance(read, StreamingDataset):
        read = getattr(read, "dataset", None)
    if num_processes == 1 or not isinstance(read, StreamingDataset):
        return
    if (num_ranks := read._mdstorm.count_ranks()) > 1:
        raise InvalidArgumentError(
            "Accelerate, as in accelerator.prepare(DataLoader(dataset)) or Hugging Face's "
            "Trainer, splits the samples among its processes, but this dataset has already split "
            f"them among {num_ranks} ranks, so rows would be lost. With a Trainer, also derive "
            "its class from mdstorm.transformers.StreamingTrainerMixin: class "
            "MyTrainer(StreamingTrainerMixin, Trainer). With an Accelerator, prepare a "
            "StreamingDataLoader(dataset, batch_size=…) or a converter's loader"
        )


def _with_share(
    loader: StreamingDataLoader, num_processes: int, wanted: Mapping[str, Any]
) -> StreamingDataLoader:
    """Return a copy of the loader that reads this process's share."""
    source, batch_size = source_of(loader)._mdstorm, loader.batch_size
    assert batch_size is not None
    shared, is_told = source.shared(), source.is_told_its_share
    if wanted["split_batches"] and not is_told:
        batch_size = _part_of_batch(batch_size, num_processes)
    if (mesh := wanted.get("torch_device_mesh")) is not None and not is_told:
        # Other dimensions than these read the same rows.
        names = [name for name in mesh.mesh_dim_names if name.startswith("dp")]
        shared = shared.in_order(shared.order.share_of(given_world((mesh, names))))
    order = shared.order
    if (
        not is_told
        and isinstance(order, ExactOrder)
        and wanted["even_batches"]
        and not loader.drop_last
        and source.settings.num_epochs == 1
        and not shared.options.drops_rows
    ):
        shared = shared.in_order(replace(order, padded_to=batch_size))
    other = copy(loader)
    if shared is source and batch_size == loader.batch_size:
        return other
    # PyTorch's class does not let them be set.
    other.__dict__.update(dataset=reading_as(loader.dataset, shared), batch_size=batch_size)
    other._mdstorm.runner = None
    if (state := _loaded_state(loader)) is not None:
        other.load_state_dict(state)
    return other


def _part_of_batch(batch_size: int, num_processes: int) -> int:
    if batch_size % num_processes:
        raise InvalidArgumentError(
            f"split_batches=True divides batches of {batch_size} rows among {num_processes} "
            "processes, which does not divide evenly: choose a multiple of the number of "
            "processes as the batch size"
        )
    return batch_size // num_processes


def _loaded_state(loader: StreamingDataLoader) -> dict[str, Any] | None:
    """Return the state that was loaded, of which nothing was delivered yet; None for none."""
    # The dataset may have loaded it too, but not before it has something to read.
    if loader.num_samples_yielded or "schedule" not in vars(source_of(loader)._mdstorm):
        return None
    state = loader.state_dict()
    assert state is not None
    return state if state["epoch"] or state["sample_in_epoch"] else None
