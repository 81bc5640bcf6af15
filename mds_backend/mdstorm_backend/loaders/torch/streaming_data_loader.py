"""`StreamingDataLoader`: whole batches of an MDS dataset as tensors."""

from __future__ import annotations

from collections.abc import Callable, Generator
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

import torch
from torch.utils.data import DataLoader

from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.display import Described, Description
from mdstorm_backend.loaders.loader_statistics import Statistics
from mdstorm_backend.loaders.order_descriptions import describe_data
from mdstorm_backend.loaders.torch.block_batches import FETCHES_AHEAD, BlockBatches, KeptByLoader
from mdstorm_backend.loaders.torch.counted_batches import (
    counted_batches,
    has_own_states,
    rows_of,
)
from mdstorm_backend.loaders.torch.dataset_samples import DatasetSamples, overrides
from mdstorm_backend.loaders.torch.device_batches import check_device
from mdstorm_backend.loaders.torch.loader_arguments import check_arguments, named
from mdstorm_backend.loaders.torch.torch_batches import BatchMap, BatchT, MappedCollate, TorchBatch
from mdstorm_backend.loaders.torch.torch_workers import check_can_be_sent

if TYPE_CHECKING:
    from typing_extensions import Self


class StreamingDataLoader(Described, OwnContext, DataLoader[BatchT]):
    """A ``DataLoader`` that takes whole batches from a `StreamingDataset`.

    A batch is a dict from column to tensor, or to a list where PyTorch has no type: strings,
    binaries, decimals, dates, ragged arrays. Tensors are writable; consecutive batches may share a
    block of memory but never an element. A batch that is kept therefore keeps its block alive, up
    to 16,384 rows or 8 MiB: ``.clone()`` of its tensors lets the block go.

    Where `collate_fn` is given or the dataset's ``__getitem__`` or ``get_item`` is overridden, the
    same batches come as lists of samples through `collate_fn`. In the exact order with
    ``batch_size=1`` the list is empty on a rank that is short of a row, so that all ranks have as
    many batches.

    In the elastic order the batches hold the samples of MosaicML Streaming's loader with the same
    arguments: no batch spans epochs, worker w reads the batches w, w + n, …, with `drop_last` each
    worker drops its own last batch that is not full, and ``len`` is what PyTorch makes of the
    dataset's. In the exact order no number of workers changes anything.

    It can be iterated more than once, each time with new permutations, and used in a ``with``
    statement, at whose end its threads are stopped. Nothing is opened before. A copy, or a pickled
    loader, goes on from where the original stands.

    Without a batch size, over a dataset that overrides ``__iter__`` and over any other dataset it
    is PyTorch's own loader. It counts the samples that it delivers, and its state is that of the
    `StreamingDataset` after so many; of other datasets there is none.

    Parameters
    ----------
    dataset : StreamingDataset or torch.utils.data.Dataset
        What to read. In the exact order batches span epochs; only at the very end they may be
        shorter.
    batch_size : int or None
        Rows of a batch; None for single samples.
    *arguments
        Further arguments of ``DataLoader``, in its order.
    batch_map : callable, optional
        Makes whatever the model takes of a batch, a dict from column to tensor or list: ``lambda
        batch: (batch["x"], batch["y"])``. Nothing else changes: neither ``len`` nor the state. It
        is called in the worker processes, where there are any; one that they are sent, because
        they are not forked, has to pickle. The batch is the function's own.
    device : torch.device or str, optional
        Where the tensors of a batch are to be. They are pinned and copied there, on a stream of
        their own, while the batch before is used; so one batch more is in memory. For the CPU
        nothing happens. With workers ``pin_memory=True`` pins in a thread.
    num_workers : int
        Processes that read; 0, the default, reads in threads and is usually faster.
    **options
        Any argument of ``DataLoader``; with a `StreamingDataset` none for another order: samplers,
        ``shuffle=True``, ``in_order=False``. The order of the dataset is what a state counts by.

    Raises
    ------
    ArgumentTypeError
        If `batch_map` is no function, or `device` no device.
    InvalidArgumentError
        If `batch_size` is not a positive integer, or samples or batches are to come in another
        order than the dataset's, or both `batch_map` and ``collate_fn`` are given.
    """

    @overload
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        *arguments: Any,
        batch_map: Callable[[TorchBatch], BatchT],
        collate_fn: None = None,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> None: ...

    @overload
    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        *arguments: Any,
        batch_map: None = None,
        collate_fn: Callable[[list[Any]], BatchT],
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> None: ...

    @overload
    def __init__(
        self: StreamingDataLoader[TorchBatch],
        dataset: Any,
        batch_size: int | None = 1,
        *arguments: Any,
        batch_map: None = None,
        collate_fn: None = None,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> None: ...

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        *arguments: Any,
        batch_map: BatchMap | None = None,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> None:
        options = named(arguments, options)
        check_arguments(dataset, batch_size, batch_map, options)
        reads_blocks = (
            isinstance(dataset, DatasetSamples)
            and type(dataset).__iter__ is DatasetSamples.__iter__
            and batch_size is not None
        )
        self._mdstorm = KeptByLoader(
            options=options,
            batch_map=batch_map,
            device=check_device(device),
            collates=options.get("collate_fn") is not None or overrides(type(dataset)),
            reads_blocks=reads_blocks,
        )
        if not reads_blocks and batch_map is not None:
            options = {**options, "collate_fn": MappedCollate(batch_map)}
        # PyTorch refuses the integers of NumPy.
        rows = None if batch_size is None else int(batch_size)
        super().__init__(dataset, batch_size=rows, **options)

    def _mdstorm_description(self, *, full: bool) -> Description:
        found = describe_data(self.dataset, full=full)
        sizes = [("batch_size", f"{self.batch_size}"), ("num_workers", f"{self.num_workers}")]
        return replace(
            found,
            line=[*found.line, *(f"{name}={value}" for name, value in sizes)],
            facts=[*found.facts, *sizes, ("so far", self.statistics().delivered)],
        )

    @property
    def num_samples_yielded(self) -> int:
        """Samples that the iteration which was advanced last has delivered, on this rank.

        In the elastic order they are counted anew in each epoch. A subclass that makes its own
        iterations of PyTorch's loader sets it, and is believed.
        """
        kept = self._mdstorm
        if kept.counted is not None:
            return kept.counted
        return 0 if kept.runner is None else kept.runner.rows

    @num_samples_yielded.setter
    def num_samples_yielded(self, count: int) -> None:
        self._mdstorm.counted = count

    def _get_batch_size(self, batch: Any) -> int:
        """Return the samples of a batch that PyTorch's loader has made, as MosaicML Streaming's."""
        return rows_of(batch, None if self.batch_sampler is None else self.batch_size or 1)

    def __len__(self) -> int:
        """Batches of a whole pass; of one that goes on in another world, those that were left.

        Raises
        ------
        TypeError
            If epochs are infinite, or a transform may drop rows, or the dataset has no length.
        """
        if not self._mdstorm.reads_blocks or _has_own_length(self.dataset):
            return DataLoader.__len__(self)
        if not self._mdstorm.has_length:
            raise TypeError("this pass goes on in another world, with fewer batches than the next")
        return BlockBatches(self, self._mdstorm).passes.place.num_batches()

    def __iter__(self) -> Generator[BatchT, None, None]:  # type: ignore[override]
        kept = self._mdstorm
        if self.num_workers and kept.batch_map is not None:
            check_can_be_sent(kept.batch_map, kept.options)
        kept.has_last = FETCHES_AHEAD.get()
        batches: Generator[Any, None, None]
        if kept.reads_blocks:
            counts_itself = type(self)._get_batch_size is not StreamingDataLoader._get_batch_size
            counts_itself = counts_itself or has_own_states(self.dataset)
            batches = BlockBatches(self, kept).run(self._get_batch_size if counts_itself else None)
        else:
            batches = counted_batches(self, kept, self._get_batch_size)
        return kept.threads.follow(batches)

    def __copy__(self) -> Self:
        """Return a loader that continues where this one stands, without what is under way."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _mdstorm=copy(self._mdstorm))
        return other

    def __enter__(self) -> Self:
        if isinstance(self.dataset, DatasetSamples):
            _ = self.dataset._mdstorm.dataset  # one that is gone shows here, not at the first batch
        return self

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self.close()

    def close(self) -> None:
        """End running iterations, their threads and processes. The loader can be iterated again."""
        self._mdstorm.threads.end()
        self._mdstorm.end_workers()

    def set_epoch(self, epoch: int) -> None:
        """Say with which epoch the next iteration begins, see `StreamingDataset.set_epoch`."""
        dataset: Any = self.dataset
        dataset.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any] | None:
        """Return where the loader stands, for `load_state_dict` of an equal loader.

        With several iterations under way it is where the one stands that was advanced last. The
        keys are those of MosaicML Streaming, and under ``"mdstorm"`` what belongs to this order.
        A batch that Lightning or Ray Train has fetched ahead does not count as delivered. Of a
        dataset that is no `StreamingDataset` there is no state: it is None.
        """
        kept = self._mdstorm
        if kept.reads_blocks and kept.counted is None and not has_own_states(self.dataset):
            return BlockBatches(self, self._mdstorm).state_dict()
        if not isinstance(self.dataset, DatasetSamples):
            return None
        num_shares = self.dataset._mdstorm.count_shares()
        return self.dataset.state_dict(self.num_samples_yielded * num_shares, False)

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return what was delivered so far, and what training has waited for.

        Worker processes send what they count along with their batches. A copy of the loader, also a
        pickled one, begins at nothing; states do not contain it.

        Parameters
        ----------
        last_pass : bool
            Only the iteration that was begun last, rather than all of them.
        """
        return self._mdstorm.recorders.statistics(last_pass=last_pass)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration continue where `state` was taken, on this rank or another one.

        All ranks must have had as many batches as that one. In another world, or in the exact order
        with another batch size, what is left of the epoch is split anew. After the last batch of a
        pass the next one begins. With a dataset that is no `StreamingDataset` nothing happens.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or order, or is no state; or from another rank
            where a transform may drop rows.
        NoDataAvailableError
            If the pass has fewer rows left than the world has ranks.
        """
        if self._mdstorm.reads_blocks and not has_own_states(self.dataset):
            self._mdstorm.counted = None
            BlockBatches(self, self._mdstorm).load_state_dict(state)
            return
        if isinstance(self.dataset, DatasetSamples):
            self.dataset.load_state_dict(state)
        self._mdstorm.runner = self._mdstorm.counted = None


def _has_own_length(dataset: object) -> bool:
    """Whether a subclass of `StreamingDataset` overrides its length, which then counts."""
    return type(dataset).__len__ is not DatasetSamples.__len__  # type: ignore[attr-defined]
