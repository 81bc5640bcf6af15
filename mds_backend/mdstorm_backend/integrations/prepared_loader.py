"""`PreparedLoader`: the loader that ``accelerator.prepare`` makes from a `StreamingDataLoader`.

Accelerate's ``prepare_data_loader`` gives each process a part of a loader's data. However, each
rank of a `StreamingDataLoader` already reads only its own rows. So a hook calls `prepared` first,
which returns a `PreparedLoader` with the device and batch size that Accelerate passes.

A `PreparedLoader` reads its rank's batches through a `PreparedBatches`, which moves them to the
device, pads the last one if Accelerate wants even batches, and tells Accelerate when a pass ends.
To know which batch is the last, it fetches one batch ahead, or requests the end. Neither counts
until it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import torch
from accelerate.state import GradientState, PartialState
from accelerate.utils import send_to_device
from torch.utils import data

from mdstorm_backend.base import OwnContext
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders import Consumer, Statistics
from mdstorm_backend.loaders.torch import OpenedDataset, StreamingDataLoader, StreamingDataset
from mdstorm_backend.loaders.torch.block_passes import BlockPasses, loop_of, source_of
from mdstorm_backend.loaders.torch.moved_batches import moved_together, repeated_rows, same
from mdstorm_backend.order import ROWS_UNKNOWN, ExactOrder, given_world


def prepared(arguments: Mapping[str, Any]) -> PreparedLoader | None:
    """Return a loader over this process's share, or None if Accelerate itself has to prepare it.

    Accelerate has to prepare a loader whose batches are not read as blocks, because the dataset
    overrides ``__iter__`` or is not one of ours. It may split the samples of such a dataset.

    Parameters
    ----------
    arguments : mapping
        The arguments of Accelerate's ``prepare_data_loader``.

    Raises
    ------
    InvalidArgumentError
        If Accelerate would split a process's share again, or if ``split_batches`` cannot divide the
        batches evenly.
    """
    loader = arguments["dataloader"]
    num_processes = arguments["num_processes"] or PartialState().num_processes
    is_ours = isinstance(loader, StreamingDataLoader)
    if not is_ours or not isinstance(loader._mdstorm, BlockPasses):
        _refuse_second_split(loader, num_processes)
        return None
    return PreparedLoader(
        _with_share(loader, num_processes, arguments),
        device=arguments["device"] if arguments["put_on_device"] else None,
        non_blocking=arguments["non_blocking"],
        use_stateful_dataloader=arguments["use_stateful_dataloader"],
    )


def _refuse_second_split(loader: Any, num_processes: int) -> None:
    read = getattr(loader, "dataset", None)
    while isinstance(read, data.IterableDataset) and not isinstance(read, StreamingDataset):
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
    loader: StreamingDataLoader, num_processes: int, arguments: Mapping[str, Any]
) -> StreamingDataLoader:
    """Return a copy of `loader` that reads only this process's share, from the same position."""
    source, batch_size = source_of(loader)._mdstorm, loader.batch_size
    assert batch_size is not None
    shared, knows_share = source.shared(), source.has_explicit_share
    if arguments["split_batches"] and not knows_share:
        if batch_size % num_processes:
            raise InvalidArgumentError(
                f"split_batches=True divides batches of {batch_size} rows among {num_processes} "
                "processes, which does not divide evenly: choose a multiple of the number of "
                "processes as the batch size"
            )
        batch_size //= num_processes
    if (mesh := arguments.get("torch_device_mesh")) is not None and not knows_share:
        # Processes that differ only in the mesh's other dimensions read the same rows.
        names = [name for name in mesh.mesh_dim_names if name.startswith("dp")]
        shared = shared.in_order(shared.order.share_of(given_world((mesh, names))))
    padded = shared.order.padded(batch_size)
    if (
        padded.padded_to
        and not knows_share
        and arguments["even_batches"]
        and not loader.drop_last
        and source.settings.num_epochs == 1
        and not shared.options.drops_rows
    ):
        shared = shared.in_order(padded)
    if shared is source and batch_size == loader.batch_size:
        return copy(loader)
    other = _reading_from(shared, loader, batch_size=batch_size)
    if source.is_opened:  # an unopened dataset is at its beginning
        _begin_where(loader, other)
    return other


def _begin_where(loader: StreamingDataLoader, other: StreamingDataLoader) -> None:
    """Make `other` begin where the next iteration of `loader` would begin."""
    loop = loop_of(loader)
    position = loop.epochs.next_position
    # The seed of `loader` may be drawn at random on each rank, so `other` keeps its own. Only a
    # position within an epoch or from a state needs the seed with which it was recorded.
    if position.consumed or position.seed is not None:
        other.load_state_dict(loop.next_state())
    else:
        other.set_epoch(position.epoch)


def _reading_from(
    opened: OpenedDataset, loader: StreamingDataLoader, **changed: Any
) -> StreamingDataLoader:
    """Return a copy of the loader that reads from `opened`, with some attributes changed."""
    other, dataset = copy(loader), copy(source_of(loader))
    dataset._mdstorm = opened
    # PyTorch's class does not allow setting these attributes.
    other.__dict__.update(dataset=dataset, **changed)
    return other


class PreparedLoader(OwnContext, data.DataLoader[Any]):
    """A `StreamingDataLoader` after ``accelerator.prepare``: this rank's share, on its device.

    It has the attributes that Accelerate and users of its loaders expect: ``batch_size`` is None,
    ``dataset`` yields whole batches, and the length of ``dataset`` is a number of rows.

    Parameters
    ----------
    loader : StreamingDataLoader
        Reads this rank's batches.
    device : torch.device or None
        Where tensors go; None leaves them where they are.
    non_blocking : bool
        Copy them without waiting.
    use_stateful_dataloader : bool
        Whether Accelerate's ``save_state`` saves the loader's state.

    Attributes
    ----------
    device, use_stateful_dataloader
        As given.
    gradient_state : GradientState
        Accelerate's object that knows whether the loader being iterated is at its end.
    """

    #: Accelerate sets this attribute, and checks it to avoid preparing a loader twice.
    _is_accelerate_prepared = True

    def __init__(
        self,
        loader: StreamingDataLoader,
        *,
        device: torch.device | None,
        non_blocking: bool,
        use_stateful_dataloader: bool,
    ) -> None:
        self.device = device
        self.use_stateful_dataloader = use_stateful_dataloader
        self._skipped = 0
        self._batches = PreparedBatches(loader, device, non_blocking=non_blocking)
        super().__init__(self._batches, batch_size=None, collate_fn=same)

    @property
    def gradient_state(self) -> GradientState:
        """Accelerate's object that tracks whether the current loader has reached its end."""
        return GradientState()

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the latest batch is the last one in its pass."""
        return self._batches.end_of_dataloader

    @property
    def remainder(self) -> int:
        """Number of rows in the last global batch before padding; 0 if it is full.

        It is also 0 if the order never pads batches.
        """
        return self._batches.remainder

    @property
    def total_batch_size(self) -> int:
        """Number of rows in a global batch, which consists of one batch from every rank."""
        options = source_of(self._batches.loader)._mdstorm.options
        return self._batches.batch_size * int(options.in_world().order.world_size)

    @property
    def total_dataset_length(self) -> int:
        """Number of rows in an epoch over all ranks."""
        return len(self._batches)

    def __len__(self) -> int:
        """Return the number of batches in a whole pass, which is the same on all ranks.

        Raises
        ------
        TypeError
            If the number is not known.
        """
        return len(self._batches.loader) - self._skipped

    def __iter__(self) -> Generator[Any, None, None]:  # type: ignore[override]
        yield from self._batches.after(self._skipped)

    def mdstorm_skipping(self, num_batches: int) -> PreparedLoader:
        """Return a copy of the loader that skips the first batches of each iteration."""
        other = copy(self)
        other._skipped = self._skipped + num_batches
        return other

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        self._batches.loader.set_epoch(epoch)

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return batch counts and waiting times so far: see `StreamingDataLoader`."""
        return self._batches.loader.statistics(last_pass=last_pass)

    def state_dict(self) -> dict[str, Any]:
        """Return the state after the latest batch, which is the same on all ranks."""
        return loop_of(self._batches.loader).state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume the next iteration from a state, with any world size.

        Raises
        ------
        StateMismatchError
            If the state was taken from a different dataset or order, or is not a state.
        """
        self._batches.loader.load_state_dict(state)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self.close()

    def close(self) -> None:
        """End running iterations, with their threads and processes; the loader remains usable."""
        self._batches.loader.close()


_NONE: Any = object()


class _Padding(NamedTuple):
    """The number of a pass's last batch, counted from 1, and its size without and with padding."""

    last: int | None
    rows: int
    size: int


class PreparedBatches(data.IterableDataset[Any]):
    """A dataset for Accelerate whose items are a loader's whole batches, on a device.

    It is the dataset of a `PreparedLoader`, including one that ``skip_first_batches`` returns.
    During an iteration, it is the active loader of ``GradientState``.

    Parameters
    ----------
    loader : StreamingDataLoader
        Reads this rank's batches.
    device : torch.device or None
        Where tensors go; None leaves them where they are.
    non_blocking : bool
        Copy them without waiting.

    Attributes
    ----------
    end_of_dataloader : bool
        Whether the latest batch is the last one in its pass.
    remainder : int
        Number of rows in the last global batch before padding; 0 if it is full, or if the order
        never pads batches.
    batch_map : callable or None
        Applied to each batch before it goes to the device.
    """

    def __init__(
        self, loader: StreamingDataLoader, device: torch.device | None, *, non_blocking: bool
    ) -> None:
        super().__init__()
        assert loader.batch_size is not None
        self.loader, self.batch_size = loader, loader.batch_size
        # Batches are made in main memory, so nothing has to be moved for a CPU.
        self._device = None if device is None or device.type == "cpu" else device
        self._non_blocking = non_blocking
        self.end_of_dataloader = False
        self.remainder = 0
        self.batch_map: Callable[[Any], Any] | None = None

    def __len__(self) -> int:
        """Return the number of rows in an epoch over all ranks.

        Raises
        ------
        TypeError
            If the number of rows may change while reading, as with a transform.
        """
        opened = source_of(self.loader)._mdstorm
        if opened.options.drops_rows:
            raise TypeError(f"the number of rows is not known: {ROWS_UNKNOWN}")
        return opened.plan().num_samples

    def __iter__(self) -> Generator[Any, None, None]:
        yield from self.after(0)

    def after(self, skipped: int) -> Generator[Any, None, None]:
        """Iterate over a pass, yielding all but the first `skipped` batches."""
        loader, state = self.loader, GradientState()
        is_ahead, self.end_of_dataloader, self.remainder = False, False, 0
        consumer = Consumer(lambda: is_ahead, skipped=skipped, has_used_end=False)
        batches, before, padding = iter(loader), None, None
        state._add_dataloader(self)
        try:
            with consumer.requesting():
                batch = next(batches, _NONE)
            if batch is not _NONE:
                padding = self._padding()
            number = 0
            while batch is not _NONE:
                number += 1
                # If an error is raised after this point, the loader is one batch ahead of the
                # yielded batches.
                is_ahead = True
                if padding is not None and number == padding.last:
                    batch = self._padded(batch, before, padding)
                finished, before = self._finished(batch), batch
                batch = next(batches, _NONE)
                self.end_of_dataloader = batch is _NONE
                is_ahead = not self.end_of_dataloader
                if number > skipped:
                    yield finished
            consumer.has_used_end = True
        finally:
            state._remove_dataloader(self)
            batches.close()

    def _padding(self) -> _Padding | None:
        """Return the padding of this rank's last batch, or None if the pass has no padding."""
        segment = loop_of(self.loader).segment
        order = segment.options.order
        if not order.padded_to:
            return None
        size, left = order.padded_to, segment.plan.num_samples - segment.position.consumed
        self.remainder = left % (size * order.world_size)
        rest = self.remainder or size * order.world_size
        # Batches are padded to full size, as Accelerate does. A single rank needs no padding.
        wanted = rest if order.world_size == 1 else size
        rows = min(max(rest - order.world.rank * size, 0), size)
        return _Padding(segment.plan.num_batches(), rows, wanted)

    def _finished(self, batch: Any) -> Any:
        batch = batch if self.batch_map is None else self.batch_map(batch)
        if self._device is None:
            return batch
        send = partial(send_to_device, device=self._device, non_blocking=self._non_blocking)
        return moved_together(batch, self._device, send)

    def _padded(self, batch: Any, before: Any, padding: _Padding) -> Any:
        """Return the last batch, padded with its own rows or rows from the previous batch."""
        _, rows, size = padding
        if rows == size:
            return batch
        if rows:
            return repeated_rows(batch, rows, size)
        if before is None:
            return self._batch_of_anything(size)
        return repeated_rows(before, self.batch_size, size)

    def _batch_of_anything(self, size: int) -> Any:
        """Return a batch of arbitrary rows for a rank that has no rows to repeat."""
        opened = source_of(self.loader)._mdstorm.in_order(ExactOrder(seed=1))
        with _reading_from(opened, self.loader, num_workers=0) as other:
            return repeated_rows(next(iter(other)), min(size, len(self)), size)
