"""Access to the samples of a `StreamingDataset`, by number and by iteration, and its states."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Any

from torch.utils.data import get_worker_info

from mdstorm_backend.base.recorder import current_recorder
from mdstorm_backend.datasets.sample_access import Array
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders.agreement import warn_of_samples
from mdstorm_backend.loaders.epochs import Worker
from mdstorm_backend.loaders.rest import Rest
from mdstorm_backend.loaders.sample_maker import of_batch
from mdstorm_backend.loaders.torch.dataset_info import DatasetInfo
from mdstorm_backend.loaders.torch.opened_dataset import OpenedDataset
from mdstorm_backend.loaders.torch.worker_part import WorkerPart
from mdstorm_backend.read.block import Block

if TYPE_CHECKING:
    from typing_extensions import Self


class DatasetSamples(DatasetInfo, Array):
    """A dataset that yields the samples of this rank or, in a worker process, the worker's part.

    The part of `StreamingDataset` that a loader needs.
    """

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return one sample by its number in stored order, with the same values as iteration.

        The transform is not applied, because it works on whole batches of samples.
        """
        return self._mdstorm.sample_maker(sample_id)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None:
            return _own_samples(self)
        return _samples_of(self, self._mdstorm.begin_part(info))

    def __copy__(self) -> Self:
        """Return a copy with independent settings that shares the epoch counter."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _mdstorm=self._mdstorm.twin())
        return other

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch with which the next iteration begins, over samples or by a loader.

        An iteration that resumes from a loaded state still does so if the state is of this epoch.
        In the exact order, workers of a plain ``DataLoader`` begin with the epoch of the dataset
        that they were copied from.
        """
        self._mdstorm.schedule.next_epoch = epoch

    def state_dict(
        self, num_samples: int | None = None, from_beginning: bool = True
    ) -> dict[str, Any]:
        """Return the reading position, for `load_state_dict`.

        Without arguments, this is the position of the latest iteration, over samples in this
        process or by a `StreamingDataLoader`. With arguments, the caller states the position, as in
        MosaicML Streaming.

        Parameters
        ----------
        num_samples : int, optional
            Number of samples of the epoch that all ranks together have received; in the exact
            order, of the pass, which may have several epochs.
        from_beginning : bool
            Whether `num_samples` counts from the beginning, or from the loaded state.

        Raises
        ------
        StateMismatchError
            If the position is not known: workers of a plain ``DataLoader`` read the samples, a
            transform may have dropped some, or a loader counts the items of an overridden
            ``__iter__`` that are not one sample each. A worker knows its own part, which is what
            torchdata's ``StatefulDataLoader`` requests. In the exact order, the process that
            started the workers does not notice them: its state covers only what it read itself.
        """
        if num_samples is not None and self._mdstorm.schedule.epochs.has_packs:
            raise StateMismatchError(
                f"what {type(self).__name__}.__iter__ yields is not one sample each, so their "
                "number does not say which samples were read: pack, split or leave out samples in "
                "a collate_fn, or override _get_batch_size of the loader to count the samples of a "
                "batch"
            )
        return self._mdstorm.state_dict(num_samples, from_beginning)

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Resume the next iteration from a state of this class or of MosaicML's.

        After the last sample of an epoch, the next epoch begins. The state's seed and canonical
        nodes take precedence over the arguments.

        Raises
        ------
        StateMismatchError
            If the state was taken from another dataset or order, or is not a state.
        """
        self._mdstorm.load_state_dict(obj)


def _own_samples(dataset: DatasetSamples) -> Iterator[Any]:
    opened = dataset._mdstorm
    opened.noted = opened.yielded
    for rest in opened.schedule.own_rests(opened.settings.batch_size, Worker()):
        opened.noted -= opened.yielded
        opened.yielded = 0
        warn_of_samples(rest, opened.settings.batch_size)
        for block in sample_blocks(dataset, rest.recorded(current_recorder())):
            for sample in samples_of(dataset, block):
                opened.yielded += 1
                yield sample


def _samples_of(dataset: DatasetSamples, part: WorkerPart) -> Iterator[Any]:
    for rest, number in part.rests():
        skipped = part.yielded
        if number == 0:
            warn_of_samples(rest, dataset._mdstorm.settings.batch_size)
        for block in sample_blocks(dataset, rest, number):
            samples = samples_of(dataset, block)
            for mark, size in zip(block.marks, block.sizes, strict=True):
                for sample in islice(samples, skipped, size):
                    part.yielded += 1
                    yield sample
                part.advance(mark)
                skipped = 0


def sample_blocks(
    dataset: DatasetSamples, rest: Rest, part: int = 0, *, block_rows: int | None = None
) -> Iterator[Block]:
    """Return the blocks of one part of `rest`, for `samples_of`.

    Raises
    ------
    InvalidArgumentError
        If a subclass overrides ``__getitem__`` and there is a transform, whose rows have no sample
        numbers.
    """
    if not _makes_samples(dataset):
        return rest.blocks(part, block_rows=block_rows)
    if dataset._mdstorm.options.transform is not None:
        raise InvalidArgumentError(
            f"{type(dataset).__name__} overrides __getitem__ and has a transform, which would not "
            "be called: transform each sample in __getitem__, or do not override it"
        )
    return rest.blocks(part, block_rows=block_rows, unread=True)


def samples_of(dataset: DatasetSamples, block: Block) -> Iterator[Any]:
    """Yield the samples of a block one by one, from ``__getitem__`` if it is overridden.

    Keep a reference to the block meanwhile: it keeps the shards open.
    """
    if _makes_samples(dataset):
        yield from map(dataset.__getitem__, block.numbers())
        return
    yield from of_batch(block.batch, dataset._mdstorm.options)


def _makes_samples(dataset: DatasetSamples) -> bool:
    """Whether samples are made one by one rather than sliced from whole columns."""
    if overrides(type(dataset)):
        return True
    opened = dataset._mdstorm
    maker = opened.sample_maker
    return opened.options.transform is None and maker.decodes and not maker.is_row


def overrides(class_: type) -> bool:
    """Whether a class overrides how single samples are made, which whole batches would bypass."""
    return any(
        getattr(class_, method) is not getattr(DatasetSamples, method)
        for method in ("__getitem__", "get_item")
    )


def reading_as(dataset: Any, opened: OpenedDataset) -> Any:
    """Return a copy of a `StreamingDataset` that reads from `opened`."""
    other = copy(dataset)
    other._mdstorm = opened
    return other
