"""`StreamingDataLoader`: whole batches of an MDS dataset as tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, overload

import torch
from torch.utils.data import DataLoader, IterableDataset

from mdstorm_backend.base import Iteration, OwnContext, check_function, unknown_keyword
from mdstorm_backend.base.checks import keywords_of, overrides, refuses_assigned_arguments
from mdstorm_backend.display import Described, Description
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.loaders import Loader, Statistics, Trace, describe_data
from mdstorm_backend.loaders.torch import moved_batches, torch_batches
from mdstorm_backend.loaders.torch.block_passes import CountedBlockPasses, PlannedPasses
from mdstorm_backend.loaders.torch.collation import collate_samples
from mdstorm_backend.loaders.torch.counted_pass import CountedPass
from mdstorm_backend.loaders.torch.counted_rows import rows_of
from mdstorm_backend.loaders.torch.loader_passes import LoaderPasses, has_own_states
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset
from mdstorm_backend.loaders.torch.torch_batches import BatchMap, BatchT, TorchBatch
from mdstorm_backend.loaders.torch.torch_passes import TorchPasses
from mdstorm_backend.read.reader import check_batch_size

if TYPE_CHECKING:
    from typing_extensions import Self


@refuses_assigned_arguments
class StreamingDataLoader(Described, OwnContext, DataLoader[BatchT]):
    """A ``DataLoader`` that takes whole batches from a `StreamingDataset`.

    A batch is a dict from column name to tensor. Columns that PyTorch has no type for (strings,
    binaries, decimals, dates, ragged arrays) are lists. Tensors are writable. Consecutive batches
    may share a block of memory, but never an element. If you keep a batch, it keeps its block
    alive, up to 65,536 rows or 8 MiB; ``.clone()`` its tensors to release the block.

    With a `collate_fn`, or if the dataset overrides ``__getitem__`` or ``get_item``, the same
    batches pass through `collate_fn` as lists of samples. In the exact order with ``batch_size=1``,
    the list is empty on a rank that has one row fewer, so that all ranks have the same number of
    batches.

    In the elastic order, batches hold the same samples as MosaicML Streaming's loader with the same
    arguments: no batch spans epochs, worker w reads batches w, w + n, …, each worker drops its last
    batch if it is not full and `drop_last` is set, and PyTorch computes ``len`` from the dataset's
    length. In the exact order, the number of workers makes no difference.

    You can iterate over a loader more than once, each time with new permutations, and use it in a
    ``with`` statement, whose end stops its threads. Nothing is opened before the first iteration. A
    deep copy or a pickled loader continues where the original was. A copy made by ``copy.copy``
    shares the dataset, and so where the next iteration over it begins.

    With ``batch_size=None``, a dataset that overrides ``__iter__``, or a dataset of a different
    class, it behaves like PyTorch's own loader. It counts the samples that it yields, and its state
    is the `StreamingDataset`'s state after that many samples; a dataset of a different class has no
    state.

    Parameters
    ----------
    dataset : StreamingDataset or torch.utils.data.Dataset
        The dataset. In the exact order, a batch may span epochs, and only the last ones may be
        shorter.
    batch_size : int or None
        Rows per batch; None for single samples.
    *arguments
        Other positional arguments of ``DataLoader``.
    batch_map : callable, optional
        Function that turns a batch, a dict from column name to tensor or list, into the model's
        input, such as ``lambda batch: (batch["x"], batch["y"])``. It does not affect ``len`` or the
        state. If there are worker processes, it is called in them, and must be picklable unless
        they are forked. It may modify the batch.
    device : torch.device or str, optional
        Device to copy each batch's tensors to. They are pinned and copied on a separate stream
        while previous batches are used. Consecutive batches from a table are copied together, about
        1 MiB at a time; images, and batches made by a transform, `batch_map` or ``collate_fn``, are
        copied one batch at a time. Tensors of up to 32 KiB are views of the memory that was copied
        together, which is freed with the last of them. ``"cpu"`` has no effect. With workers,
        ``pin_memory=True`` pins in a thread.
    num_workers : int
        Number of reading processes; 0, the default, reads in threads and is usually faster.
    **options
        Any argument of ``DataLoader``. With a `StreamingDataset`, arguments that change the order
        (samplers, ``shuffle=True``, ``in_order=False``) raise an error, because states depend on
        the order of the dataset.

    Raises
    ------
    ArgumentTypeError
        If `batch_map` is not a function, or `device` is not a device.
    InvalidArgumentError
        If `batch_size` is not a positive integer, if an argument requests a different order than
        the dataset's, or if both `batch_map` and ``collate_fn`` are passed.
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
        mode = mode_for(dataset, batch_size)
        self._mdstorm = mode(batch_map, moved_batches.check_device(device))
        if mode is TorchPasses and batch_map is not None:
            options = {**options, "collate_fn": partial(torch_batches.mapped_collate, batch_map)}
        elif batch_size is not None and options.get("collate_fn") is None:
            options = {**options, "collate_fn": collate_samples}
        # PyTorch does not accept NumPy integers.
        rows = None if batch_size is None else int(batch_size)
        super().__init__(dataset, batch_size=rows, **options)
        if _iterates_itself(dataset) and not self._mdstorm_counts_itself():
            collate = torch_batches.without_note(self.collate_fn)  # of another loader
            self.collate_fn = partial(torch_batches.noted, collate, dataset, rows is None)

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
        """Number of samples that the most recently advanced iteration has yielded on this rank.

        In the elastic order, the count starts again in each epoch. A subclass that iterates over
        PyTorch's loader itself may set it.
        """
        return self._mdstorm.num_samples

    @num_samples_yielded.setter
    def num_samples_yielded(self, count: int) -> None:
        counted = self._mdstorm.counted or CountedPass()
        self._mdstorm.counted_pass, counted.samples = counted, (count,)

    def _get_batch_size(self, batch: Any) -> int:
        """Return the number of samples in a batch made by PyTorch, as MosaicML Streaming does."""
        batch_size = None if self.batch_sampler is None else self.batch_size or 1
        return rows_of(batch, batch_size)

    def _mdstorm_counts_itself(self) -> bool:
        """Whether a subclass of the loader or dataset counts the samples in batches itself."""
        own = overrides(self, StreamingDataLoader, "_get_batch_size")
        return own or has_own_states(self.dataset)

    def __bool__(self) -> bool:
        """Return True, also without a length: ``if self.loader:`` asks whether there is one."""
        return True

    def __len__(self) -> int:
        """Number of batches in a pass, or in the rest of one that resumed in a different world.

        Raises
        ------
        TypeError
            If epochs are infinite, the number of batches is not known because rows may be dropped,
            or the dataset has no length.
        """
        return self._mdstorm.length(self)

    def __iter__(self) -> Iteration[BatchT]:  # type: ignore[override]
        kept = self._mdstorm
        if self.num_workers:
            torch_batches.check_can_be_sent(self, kept.batch_map)
        return kept.threads.follow(kept.batches(self))

    def __getitem__(self, index: object) -> Any:
        """Raise ArgumentTypeError, because this loader yields batches and has no items."""
        raise ArgumentTypeError(
            "a StreamingDataLoader yields batches, and has no items. If PyTorch's DataLoader "
            "wraps it, iterate over the StreamingDataLoader instead"
        )

    def __copy__(self) -> Self:
        """Return a loader over the same dataset, without this loader's running iterations."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _mdstorm=copy(self._mdstorm))
        return other

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Older pickles do not have the mode, because all modes were one class.
        self._mdstorm.__class__ = mode_for(self.dataset, self.batch_size)

    def __enter__(self) -> Self:
        if isinstance(self.dataset, StreamingDataset):
            _ = self.dataset._mdstorm.dataset  # so that a missing dataset raises an error here
        return self

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self.close()

    def close(self) -> None:
        """End running iterations, with their threads and processes. The loader remains usable."""
        self._mdstorm.end()

    def _mdstorm_loop(self) -> Loader | None:
        """Return the object with the loader's position; None if PyTorch makes the batches."""
        return self._mdstorm.loop(self)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration: see `StreamingDataset.set_epoch`.

        Until a running iteration takes another batch, the state of each loader over the dataset is
        the beginning of that epoch.
        """
        self._mdstorm.set_epoch(self, epoch)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the loader's position, for `load_state_dict` of an equivalent loader.

        With several iterations in progress, this is the position of the one that was advanced last.
        The keys are MosaicML Streaming's, plus ``"mdstorm"`` with the values that this order needs.
        A batch that Lightning or Ray Train has fetched ahead does not count as yielded. If the
        dataset is not a `StreamingDataset`, the state is None.
        """
        return self._mdstorm.state_dict(self)

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return how much has been yielded so far, and what training waited for.

        Worker processes send their counts along with their batches. A copy of the loader, even a
        pickled one, starts from zero, and states do not contain statistics.

        Parameters
        ----------
        last_pass : bool
            Whether to return only the statistics of the iteration that began last.
        """
        return Statistics.of(self._mdstorm.recorder, last_pass=last_pass)

    def load_state_dict(self, state: dict[str, Any] | None, *, skip_batches: int = 0) -> None:
        """Resume the next iteration from a state that was taken on this or another rank.

        All ranks must have received the same number of batches. In a different world, or in the
        exact order with a different batch size, the remaining samples are split again. After the
        last batch of a pass, the next pass begins. Does nothing if the dataset is not a
        `StreamingDataset`.

        Parameters
        ----------
        state : dict
            The state.
        skip_batches : int
            Number of batches of each rank to leave out: the next iteration begins this many batches
            after the state. Nothing else changes, such as a learning-rate schedule.

        Raises
        ------
        InvalidArgumentError
            If fewer batches than `skip_batches` remain in the pass, or if PyTorch makes the batches
            or the dataset has its own states.
        StateMismatchError
            If the state was taken from a different dataset or order, or is not a state, or if it
            was taken on a different rank and a transform may drop rows.
        NoDataAvailableError
            If fewer rows remain in the pass than the world has ranks.
        """
        self._mdstorm.load_state_dict(self, state, skip_batches)

    def trace(self, state: dict[str, Any] | None = None) -> Trace:
        """Return which rows the batches have, on any rank, without reading data.

        Batches are counted from 0, from the beginning of the running or else the next iteration, or
        from where a state resumes.

        Raises
        ------
        InvalidArgumentError
            If only reading shows which rows a batch has.
        StateMismatchError
            If the state was taken from a different dataset or order, or is not a state.
        """
        return self._mdstorm.trace(self, state)


def mode_for(dataset: object, batch_size: int | None) -> type[LoaderPasses]:
    """Return how a loader makes the batches of a dataset."""
    is_ours = isinstance(dataset, StreamingDataset)
    if not is_ours or batch_size is None or _iterates_itself(dataset):
        return TorchPasses
    return CountedBlockPasses if has_own_states(dataset) else PlannedPasses


def _iterates_itself(dataset: object) -> bool:
    """Whether a dataset overrides the iteration of `StreamingDataset`."""
    return isinstance(dataset, StreamingDataset) and overrides(
        dataset, StreamingDataset, "__iter__"
    )


#: Arguments of ``DataLoader`` that choose or order the samples.
_SAMPLERS = ("shuffle", "sampler", "batch_sampler")


def named(arguments: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``DataLoader`` by name, including those given by position.

    Raises
    ------
    TypeError
        If there are too many arguments, or one is given twice.
    ArgumentTypeError
        If an argument is unknown.
    """
    known = keywords_of(DataLoader) | keywords_of(StreamingDataLoader)
    for name in options.keys() - known:
        raise unknown_keyword("StreamingDataLoader", name, known)
    found = signature(DataLoader).bind(None, None, *arguments, **options).arguments
    given = {name: found[name] for name in found if name not in ("dataset", "batch_size")}
    return {**given, "num_workers": int(given.get("num_workers", 0))}


def check_arguments(
    dataset: object, batch_size: object, batch_map: object, options: Mapping[str, Any]
) -> None:
    """Raise an error for arguments that a loader does not support.

    Parameters
    ----------
    dataset, batch_size, batch_map
        As given.
    options : mapping
        Arguments of ``DataLoader``.

    Raises
    ------
    ArgumentTypeError
        If `dataset` is not a dataset, or `batch_map` is not a function.
    InvalidArgumentError
        If a value is invalid, or arguments cannot be combined.
    """
    is_dataset = isinstance(dataset, IterableDataset) or hasattr(dataset, "__getitem__")
    is_other = isinstance(dataset, (str, DataLoader)) or hasattr(dataset, "make_torch_dataloader")
    if is_other or not is_dataset:
        raise ArgumentTypeError(
            f"a loader takes a dataset, found {dataset!r}: create a dataset with StreamingDataset "
            "or open_dataset; for a Spark converter, call its make_torch_dataloader(); for a "
            "reader, create mdstorm.pytorch.DataLoader(reader, batch_size=…)"
        )
    if batch_size is not None:
        check_batch_size(batch_size)
    if isinstance(dataset, StreamingDataset):
        _check_order(options)
    if batch_map is not None:
        _check_batch_map(batch_map, batch_size, options)


def _check_order(options: Mapping[str, Any]) -> None:
    if given := [n for n in _SAMPLERS if options.get(n) not in (None, False)]:
        raise InvalidArgumentError(
            f"{', '.join(given)}: the dataset determines the order of the samples. Shuffle with "
            "StreamingDataset(…, shuffle=True) or order=ExactOrder(shuffle_rows=True), select "
            "samples with its streams, and pass batch_size"
        )
    if not options.get("in_order", True):
        raise InvalidArgumentError(
            "in_order=False is not supported: it yields batches in any order, so a state could not "
            "record which of them were used. Leave it out"
        )


def _check_batch_map(batch_map: object, batch_size: object, options: Mapping[str, Any]) -> None:
    check_function("batch_map", batch_map)
    if batch_size is None:
        raise InvalidArgumentError(
            "batch_map is called with whole batches, but batch_size=None yields single samples: "
            "pass a batch size, or change the samples in the dataset's __getitem__"
        )
    if options.get("collate_fn") is not None:
        raise InvalidArgumentError(
            "batch_map gets a whole batch and collate_fn a list of samples: pass only one of "
            "them. batch_map is far faster; a collate_fn may call it on the batch that it builds"
        )
