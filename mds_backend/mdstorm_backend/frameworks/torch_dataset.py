"""`StreamingDataset`: an MDS dataset as a PyTorch dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from torch.utils.data import IterableDataset, get_worker_info

from mdstorm_backend.dataset import Dataset, open_dataset
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.frameworks.formats import column_to_numpy
from mdstorm_backend.frameworks.reader_options import ReaderOptions
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.read.batch_reader import BatchReader, check_num_epochs
from mdstorm_backend.read.block import Block, Transform
from mdstorm_backend.read.gather import Gatherer
from mdstorm_backend.read.row_stream import Position
from mdstorm_backend.read.window import Range, Source, Window
from mdstorm_backend.storage import Location
from mdstorm_backend.world import find_world

__all__ = ["StreamingDataset"]

_DEFAULT_SEED = 9176
_DEFAULT_BLOCK = 1 << 18
_SAMPLES_AT_A_TIME = 1024


class StreamingDataset(IterableDataset[Any]):
    """Samples of an MDS dataset, for `StreamingDataLoader` or for a plain ``DataLoader``.

    Nothing is opened before the first use. The order is ``exact``: every sample comes once per
    epoch over all ranks. Copies in the workers of a ``DataLoader`` read every n-th batch each.

    The workers of a plain ``DataLoader`` are copied anew for each pass, so they cannot count
    epochs: with ``shuffle`` every pass has the same permutations unless `set_epoch` is called
    before it, or ``persistent_workers=True`` keeps the copies. `StreamingDataLoader` counts itself.

    Parameters
    ----------
    remote, local : str, optional
        URL or path of the dataset; one of them.
    split : str, optional
        Sub-directory to read.
    batch_size : int, optional
        Samples that belong together: what the workers of a plain ``DataLoader`` take in turn.
    shuffle : bool
        Permute shards, and samples within blocks, anew in each epoch.
    shuffle_seed : int
        Seed of the permutations.
    shuffle_block_size : int, optional
        Samples of a block, 262,144 by default; at least one shard.
    order : ExactOrder, optional
        Order and share of the rows, instead of the three arguments above. By default the rank and
        world size come from ``torch.distributed`` or the launcher's environment.
    columns, num_epochs, transform, fill_nulls, null_masks, workers, prefetch
        See `ReaderOptions`.
    storage_options : dict, optional
        Arguments of the fsspec file system.
    """

    def __init__(
        self,
        *,
        remote: str | None = None,
        local: str | None = None,
        split: str | None = None,
        batch_size: int | None = None,
        shuffle: bool = False,
        shuffle_seed: int = _DEFAULT_SEED,
        shuffle_block_size: int | None = None,
        order: ExactOrder | None = None,
        columns: Sequence[str] | None = None,
        num_epochs: int | None = 1,
        transform: Transform | None = None,
        fill_nulls: Mapping[str, Any] | None = None,
        null_masks: Sequence[str] = (),
        workers: int = 2,
        prefetch: int = 4,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if (remote is None) == (local is None):
            raise InvalidArgumentError(
                f"give either remote or local, found remote={remote!r} and local={local!r}"
            )
        location = Location.of(str(remote or local), storage_options)
        self._location = location.child(split) if split else location
        self._batch_size = batch_size
        if order is None:
            world = find_world()
            block = (shuffle_block_size or _DEFAULT_BLOCK) if shuffle else 0
            order = ExactOrder(
                seed=shuffle_seed,
                shuffle_shards=shuffle,
                window=block,
                rank=world.rank,
                world_size=world.size,
            )
        self.order = order.resolved()
        check_num_epochs(num_epochs)
        self.num_epochs = num_epochs if num_epochs is None else int(num_epochs)
        self.epoch = 0
        self._read_options: dict[str, Any] = {
            "columns": None if columns is None else tuple(columns),
            "num_epochs": self.num_epochs,
            "transform": transform,
            "fill_nulls": fill_nulls,
            "null_masks": tuple(null_masks),
            "workers": workers,
            "prefetch": prefetch,
        }

    @cached_property
    def dataset(self) -> Dataset:
        """The dataset, opened on first use."""
        return open_dataset(self._location.url, storage_options=self._location.storage_options)

    @cached_property
    def options(self) -> ReaderOptions:
        """How it is read."""
        return ReaderOptions(self.dataset, self.order, **self._read_options)

    def reader(self, batch_size: int, **options: Any) -> BatchReader:
        """Make a reader of whole batches, of which this process takes its part.

        In a worker of a ``DataLoader`` it runs in the worker's own thread.
        """
        worker = get_worker_info()
        part = (worker.id, worker.num_workers) if worker else (0, 1)
        return self.options.reader(batch_size, part=part, **options)

    def __len__(self) -> int:
        """Samples of this rank in one epoch."""
        first, last = self.order.rows(len(self.dataset))
        return last - first

    @property
    def num_samples(self) -> int:
        """Samples of the whole dataset."""
        return len(self.dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return one sample by its number in stored order, with the values that iterating gives.

        Only the transform is not called: it works on many samples at a time.

        Raises
        ------
        IndexError
            If there is no such sample.
        """
        options, gather = self._stored
        number, row = self.dataset.locate(index)
        source = Source(self.dataset.shard(number), row, row + 1)
        batch = gather([Range(Window([source], None), 0, 1)])
        if not options.nulls.is_trivial:
            batch = options.nulls(batch)
        return {
            name: column_to_numpy(values, options.column(name))[0] for name, values in batch.items()
        }

    @cached_property
    def _stored(self) -> tuple[ReaderOptions, Gatherer]:
        """What reads samples by their numbers: as `options` say, without the transform."""
        options = replace(self.options, transform=None)
        return options, Gatherer(options.schema, exact_nulls=not options.nulls.is_trivial)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made again on use."""
        return {name: value for name, value in self.__dict__.items() if name != "_stored"}

    def __iter__(self) -> Iterator[Any]:
        reader = self.reader(self._batch_size or _SAMPLES_AT_A_TIME)
        first_epoch = self.epoch
        self.finish_pass()
        for block in self.sample_blocks(reader, Position(epoch=first_epoch), first_epoch):
            yield from self.samples(block)

    def sample_blocks(
        self, reader: BatchReader, start: Position, first_epoch: int
    ) -> Iterator[Block]:
        """Yield the blocks of `reader`, for `samples`.

        Raises
        ------
        InvalidArgumentError
            If the samples come from a ``__getitem__`` of a subclass and there is a transform, whose
            rows have no numbers.
        """
        if not overrides(type(self), "__getitem__"):
            return reader.blocks(start, first_epoch)
        if reader.transform is not None:
            raise InvalidArgumentError(
                f"{type(self).__name__} overrides __getitem__ and has a transform, which would not "
                "be called: transform each sample in __getitem__, or do not override it"
            )
        return reader.planned(start, first_epoch)

    def samples(self, block: Block) -> Iterator[Any]:
        """Yield the samples of a block one by one, made by ``__getitem__`` where it is overridden.

        Hold the block meanwhile: that keeps its shards open.
        """
        if overrides(type(self), "__getitem__"):
            yield from map(self.__getitem__, block.numbers())
            return
        rows = {
            name: column_to_numpy(values, self.options.column(name))
            for name, values in block.batch.items()
        }
        for sample in zip(*rows.values(), strict=True):
            yield dict(zip(rows, sample, strict=True))

    def finish_pass(self) -> None:
        """Let the next iteration over samples have permutations of its own."""
        self.epoch += self.num_epochs or 1

    def set_epoch(self, epoch: int) -> None:
        """Say with which epoch the next iteration over samples begins.

        The workers of a plain ``DataLoader`` begin with that of the dataset they were copied from.
        """
        self.epoch = epoch


def overrides(class_: type, method: str) -> bool:
    """Whether a subclass makes samples by a `method` of its own, which batches would pass by."""
    return getattr(class_, method) is not getattr(StreamingDataset, method)
