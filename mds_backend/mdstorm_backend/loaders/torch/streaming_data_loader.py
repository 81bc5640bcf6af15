"""`StreamingDataLoader`: whole batches of an MDS dataset as tensors."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import torch
from torch.utils.data import DataLoader

from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.base.pass_threads import PassThreads
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.reading import Batching, Leg
from mdstorm_backend.loaders.runner import Delivered, PassRunner
from mdstorm_backend.loaders.torch.dataset_samples import overrides
from mdstorm_backend.loaders.torch.device_batches import check_device, on_device
from mdstorm_backend.loaders.torch.fetched_ahead import FetchedAhead, refuse_other_world
from mdstorm_backend.loaders.torch.loader_arguments import check_arguments
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset
from mdstorm_backend.loaders.torch.torch_batches import (
    BatchMap,
    DeliveredBatches,
    Making,
    MappedCollate,
    check_columns,
    pinned,
)
from mdstorm_backend.loaders.torch.torch_workers import (
    PersistentWorkers,
    check_can_be_sent,
    from_processes,
)


class StreamingDataLoader(OwnContext, DataLoader[Any]):
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

    Parameters
    ----------
    dataset : StreamingDataset
        What to read. In the exact order batches span epochs; only at the very end they may be
        shorter.
    batch_size : int
        Rows of a batch.
    num_workers : int
        Processes that read; 0, the default, reads in threads and is usually faster.
    batch_map : callable, optional
        Makes whatever the model takes of a batch, a dict from column to tensor or list: ``lambda
        batch: (batch["x"], batch["y"])``. Nothing else changes: neither ``len`` nor the state. It
        is called in the worker processes, where there are any; one that they are sent, because
        they are not forked, has to pickle. The batch is the function's own.
    device : torch.device or str, optional
        Where the tensors of a batch are to be. They are pinned and copied there, on a stream of
        their own, while the batch before is used; so one batch more is in memory. For the CPU
        nothing happens. With workers ``pin_memory=True`` pins in a thread.
    **options
        Any argument of ``DataLoader``, but those for another order: samplers, ``shuffle=True``,
        ``in_order=False``. The order of the dataset is what a state counts by.

    Raises
    ------
    ArgumentTypeError
        If `dataset` is no `StreamingDataset`, `batch_map` no function, or `device` no device.
    InvalidArgumentError
        If `batch_size` is not a positive integer, or samples or batches are to come in another
        order than the dataset's, or both `batch_map` and ``collate_fn`` are given.
    """

    def __init__(
        self,
        dataset: StreamingDataset,
        batch_size: int = 1,
        *,
        num_workers: int = 0,
        batch_map: BatchMap | None = None,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> None:
        check_arguments(dataset, batch_size, batch_map, options)
        self.batch_map = batch_map
        self.device = device
        self._device = check_device(device)
        self._collates = options.get("collate_fn") is not None or overrides(type(dataset))
        #: Whether the samples are whatever the dataset's own iterator makes.
        self._is_opaque = type(dataset).__iter__ is not StreamingDataset.__iter__
        self._options = options
        #: None before the first use, which opens the dataset.
        self._runner: PassRunner | None = None
        self._workers: PersistentWorkers | None = None
        self._threads = PassThreads()
        self._ahead = FetchedAhead()
        #: Whether those who take the length of one pass for that of all may know it.
        self.has_length = True
        if self._is_opaque and batch_map is not None:
            options = {**options, "collate_fn": MappedCollate(batch_map)}
        # PyTorch refuses the integers of NumPy.
        super().__init__(
            dataset, batch_size=int(batch_size), num_workers=int(num_workers), **options
        )

    @property
    def _source(self) -> StreamingDataset:
        assert isinstance(self.dataset, StreamingDataset)
        return self.dataset

    @property
    def _batching(self) -> Batching:
        assert self.batch_size is not None
        return Batching(self.batch_size, self.drop_last, self.num_workers)

    @property
    def _passes(self) -> PassRunner:
        """The passes over what the dataset reads: a state may have changed it."""
        reading = self._source.reading
        if self._runner is None:
            self._runner = PassRunner(reading, self._batching, self._threads)
        self._runner.reading = reading
        return self._runner

    @property
    def num_samples_yielded(self) -> int:
        """Samples that the iteration which was advanced last has delivered, on this rank.

        In the elastic order they are counted anew in each epoch.
        """
        return 0 if self._runner is None else self._runner.rows

    def __len__(self) -> int:
        """Batches of a whole pass; of one that goes on in another world, those that were left.

        Raises
        ------
        TypeError
            If epochs are infinite, or a transform may drop rows, or the dataset overrides
            ``__iter__``.
        """
        if self._is_opaque:
            raise TypeError("the number of batches is not known: the dataset overrides __iter__")
        if not self.has_length:
            raise TypeError("this pass goes on in another world, with fewer batches than the next")
        return self._passes.place.num_batches()

    def __iter__(self) -> Any:
        if self.num_workers and self.batch_map is not None:
            check_can_be_sent(self.batch_map, self._options)
        self._ahead.note_begun()
        batches = self._opaque_batches() if self._is_opaque else self._batches()
        return self._threads.follow(batches)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out running iterations; the copy continues where this loader stands."""
        threads, runner = PassThreads(), self._runner
        runner = None if runner is None else runner.to_continue(threads)
        return {**self.__dict__, "_threads": threads, "_runner": runner, "_workers": None}

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Whether it is prepared, as Accelerate asks before it prepares a loader."""
        from mdstorm_backend.loaders.torch.accelerate_hook import prepare_in_place

        return prepare_in_place(self)

    def __enter__(self) -> StreamingDataLoader:
        _ = self._source.dataset  # a dataset that is gone shows here, not at the first batch
        return self

    def _leave(self) -> None:
        self.close()

    def close(self) -> None:
        """End running iterations, their threads and processes. The loader can be iterated again."""
        self._threads.end()
        self._end_workers()

    def set_epoch(self, epoch: int) -> None:
        """Say with which epoch the next iteration begins, see `StreamingDataset.set_epoch`."""
        self._source.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader stands, for `load_state_dict` of an equal loader.

        With several iterations under way it is where the one stands that was advanced last. The
        keys are those of MosaicML Streaming, and under ``"mdstorm"`` what belongs to this order.
        A batch that Lightning or Ray Train has fetched ahead does not count as delivered.

        Raises
        ------
        StateMismatchError
            If the dataset overrides ``__iter__``: nobody knows which rows its samples are.
        """
        self._check_resumable()
        return self._passes.state_dict(before_last=self._ahead.has_one())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration continue where `state` was taken, on this rank or another one.

        All ranks must have had as many batches as that one. In another world, or in the exact order
        with another batch size, what is left of the epoch is split anew. After the last batch of a
        pass the next one begins.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or order, or is no state; or from another rank
            where a transform may drop rows.
        NoDataAvailableError
            If the pass has fewer rows left than the world has ranks.
        """
        self._check_resumable()
        if self.has_length:
            refuse_other_world(state, self._source.count_ranks())
        passes = self._passes
        passes.load_state_dict(state)
        self._source.go_on_with(passes.reading)

    def _check_resumable(self) -> None:
        if self._is_opaque:
            raise StateMismatchError(
                f"{type(self._source).__name__} overrides __iter__, so nobody knows which rows its "
                "samples are, and no state can be taken or loaded: override __getitem__ instead"
            )

    def _opaque_batches(self) -> Generator[Any, None, None]:
        batches: Delivered = ((batch, None, 0) for batch in DataLoader.__iter__(self))
        if self._device is not None:
            batches = on_device(batches, self._device)
        for batch, _, _ in batches:
            yield batch
        if self.num_workers:
            # The copies in the workers have gone on to the next epoch, this one has not.
            self._source.reading.skip_pass()

    def _batches(self) -> Generator[Any, None, None]:
        if not self._collates:
            check_columns(self._source.options)
        passes = self._passes
        passes.remembers = self._ahead.is_always or self._has_no_length()
        yield from passes.run(self._delivered)

    def _has_no_length(self) -> bool:
        try:
            len(self)
        except TypeError:
            return True
        return False

    def _delivered(self, leg: Leg) -> Delivered:
        batches = self._made(leg)
        if self._device is not None:
            return on_device(batches, self._device)
        # The batches of workers are pinned by PyTorch.
        if self.pin_memory and not self.num_workers and torch.cuda.is_available():
            return pinned(batches, are_dicts=not self._collates and self.batch_map is None)
        return batches

    def _made(self, leg: Leg) -> Delivered:
        if self.num_workers and self.persistent_workers:
            return self._from_persistent_workers(leg)
        batches = DeliveredBatches(self._source, self._making, leg)
        if self.num_workers:
            return from_processes(batches, self._process_options)
        return self._passes.converted(batches.blocks(), batches.converted)

    @property
    def _making(self) -> Making:
        return Making(self.collate_fn if self._collates else None, self.batch_map)

    @property
    def _process_options(self) -> dict[str, Any]:
        return {**self._options, "num_workers": self.num_workers}

    def _from_persistent_workers(self, leg: Leg) -> Delivered:
        workers = self._workers
        if workers is None or workers.reading is not self._source.reading or workers.is_busy:
            self._end_workers()
            workers = self._workers = PersistentWorkers(
                self._source, self._making, self._batching, self._process_options
            )
        try:
            yield from workers.deliver(leg)
        except Exception:
            self._end_workers()
            raise

    def _end_workers(self) -> None:
        """End persistent workers; those of an iteration that goes on end with it."""
        workers, self._workers = self._workers, None
        if workers is not None and not workers.is_busy:
            workers.shutdown()
