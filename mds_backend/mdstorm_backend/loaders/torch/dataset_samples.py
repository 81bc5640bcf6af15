"""The samples of a `StreamingDataset`, by number and in its order, and its states."""

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
    """A dataset that makes samples: of this rank, in a worker process that one's part of them.

    What a loader needs of a `StreamingDataset`, which makes batches as well.
    """

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return one sample by its number in stored order, with the values that iterating gives.

        Only the transform is not called: it works on many samples at a time.
        """
        return self._mdstorm.sample_maker(sample_id)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        if info is None:
            return _own_samples(self)
        return _samples_of(self, self._mdstorm.begin_part(info))

    def __copy__(self) -> Self:
        """Return a dataset that can be told other settings, and shares the count of epochs."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _mdstorm=self._mdstorm.twin())
        return other

    def set_epoch(self, epoch: int) -> None:
        """Say with which epoch the next iteration begins, over samples or by a loader.

        One that goes on where a state was taken does so still, if that is in this epoch. In the
        exact order the workers of a plain ``DataLoader`` begin with that of the dataset they were
        copied from.
        """
        self._mdstorm.schedule.next_epoch = epoch

    def state_dict(
        self, num_samples: int | None = None, from_beginning: bool = True
    ) -> dict[str, Any]:
        """Return where reading stands, for `load_state_dict`.

        Without arguments that is where the iteration stands that was begun last, over samples in
        this process or by a `StreamingDataLoader`. With them, as in MosaicML Streaming, the caller
        says it.

        Parameters
        ----------
        num_samples : int, optional
            Samples that all ranks together have had of the epoch; in the exact order of the pass,
            which may be of several epochs.
        from_beginning : bool
            Whether that is counted from the beginning, or from where a loaded state began.

        Raises
        ------
        StateMismatchError
            If nobody knows: the samples are read by workers of a plain ``DataLoader``, or a
            transform may have dropped some; or a loader counts what an overridden ``__iter__``
            yields, and that is not one sample each. A worker knows of its own part, which is what
            torchdata's ``StatefulDataLoader`` asks for. In the exact order the process that started
            workers does not notice them: its state is that of what it has read itself.
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
        """Let the next iteration go on where a state was taken, by this class or MosaicML's.

        After the last sample of an epoch that is the next one. The state's seed and canonical nodes
        take precedence over the arguments'.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or order, or is not a state.
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
    """Yield the blocks of a part of `rest`, for `samples_of`.

    Raises
    ------
    InvalidArgumentError
        If the samples come from a method of a subclass and there is a transform, whose rows have no
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
    """Yield the samples of a block one by one, made by ``__getitem__`` where it is overridden.

    Hold the block meanwhile: that keeps its shards open.
    """
    if _makes_samples(dataset):
        yield from map(dataset.__getitem__, block.numbers())
        return
    yield from of_batch(block.batch, dataset._mdstorm.options)


def _makes_samples(dataset: DatasetSamples) -> bool:
    """Whether samples are made one by one, rather than cut out of whole columns."""
    if overrides(type(dataset)):
        return True
    opened = dataset._mdstorm
    maker = opened.sample_maker
    return opened.options.transform is None and maker.decodes and not maker.is_row


def overrides(class_: type) -> bool:
    """Whether a subclass makes samples of its own, which whole batches would pass by."""
    return any(
        getattr(class_, method) is not getattr(DatasetSamples, method)
        for method in ("__getitem__", "get_item")
    )


def reading_as(dataset: Any, opened: OpenedDataset) -> Any:
    """Return a copy of a `StreamingDataset` that reads as `opened` says."""
    other = copy(dataset)
    other._mdstorm = opened
    return other
