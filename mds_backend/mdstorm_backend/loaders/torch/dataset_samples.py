"""The samples of a `StreamingDataset`, by number and in its order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from multiprocessing import context, parent_process
from typing import Any

from torch.utils.data import get_worker_info

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.datasets.sample_access import pick
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.reading import Leg, Worker
from mdstorm_backend.loaders.sample_maker import SampleMaker, of_batch
from mdstorm_backend.loaders.torch.dataset_states import DatasetStates
from mdstorm_backend.loaders.torch.second_split import refuse_second_split
from mdstorm_backend.loaders.torch.worker_guard import end_with_parent
from mdstorm_backend.loaders.torch.worker_part import WorkerPart
from mdstorm_backend.order.world import World, find_world
from mdstorm_backend.read.block import Block


class DatasetSamples(DatasetStates):
    """A dataset that makes samples: of this rank, in a worker process that one's part of them."""

    batch_size: int | None
    #: The process that has sent this copy to one that it was starting, and its world.
    _sent: tuple[int, World] | None = None

    def __getitem__(self, at: Any) -> Any:
        """Return samples by number: one for an integer, a list for a slice, list or array.

        Only the transform is not called: it works on many samples at a time.

        Raises
        ------
        IndexError
            If there is no such sample.
        """
        return pick(at, len(self.dataset), self.get_item)

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return one sample by its number in stored order, with the values that iterating gives."""
        return self._sample(sample_id)

    @cached_property
    def _sample(self) -> SampleMaker:
        return SampleMaker(self.options)

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        return self._own_samples() if info is None else self._samples_of(self.begin_part(info))

    def _own_samples(self) -> Iterator[Any]:
        self.refuse_second_split()
        for leg in self.reading.own_legs(self.batch_size, Worker()):
            self._yielded = 0
            for block in self.sample_blocks(leg):
                for sample in self.samples(block):
                    self._yielded += 1
                    yield sample

    def _samples_of(self, part: WorkerPart) -> Iterator[Any]:
        for leg, number in part.legs():
            skipped = part.rows
            for block in self.sample_blocks(leg, number):
                samples = self.samples(block)
                for mark, size in zip(block.marks, block.sizes, strict=True):
                    for sample in islice(samples, skipped, size):
                        part.rows += 1
                        yield sample
                    part.advance(mark)
                    skipped = 0

    def begin_part(self, info: Any, batch_size: int | None = None) -> WorkerPart:
        """Begin an iteration in a worker process of a plain ``DataLoader``.

        Parameters
        ----------
        info : object
            What `torch.utils.data.get_worker_info` says.
        batch_size : int, optional
            Rows of a batch; by default those that the dataset was told.
        """
        self.refuse_second_split()
        end_with_parent()
        group, world = info.seed - info.id, self._world_of_parent()
        worker = Worker(info.id, info.num_workers, group=group, world=world)
        state, self._part_state = self._part_state, None
        self._part = WorkerPart(self.reading, batch_size or self.batch_size, worker, state)
        return self._part

    def refuse_second_split(self) -> None:
        """Refuse to read a share for a loader that splits what it reads, see `second_split`."""
        refuse_second_split(self, self.count_ranks)

    def __getstate__(self) -> dict[str, Any]:
        """Tell the world to a process that is being started, which may be a worker."""
        sent = context.get_spawning_popen() is not None and self.order.follows_world
        if sent:
            self.refuse_second_split()
        place = (os.getpid(), find_world()) if sent else None
        return {**self.__dict__, "_sent": place, "_part": None}

    def count_ranks(self) -> int:
        """Return among how many ranks the samples are shared out."""
        return find_world().size if self.order.follows_world else self.order.world_size

    def _world_of_parent(self) -> World | None:
        """Return what the process said whose worker this is; a fork knows it by itself."""
        parent = parent_process()
        if self._sent is None or parent is None or parent.pid != self._sent[0]:
            return None
        return self._sent[1]

    def sample_blocks(
        self, leg: Leg, part: int = 0, *, block_rows: int | None = None
    ) -> Iterator[Block]:
        """Yield the blocks of a part of `leg`, for `samples`.

        Raises
        ------
        InvalidArgumentError
            If the samples come from a method of a subclass and there is a transform, whose rows
            have no numbers.
        """
        if not self._makes_samples:
            return leg.blocks(part, block_rows=block_rows)
        if self.options.transform is not None:
            raise InvalidArgumentError(
                f"{type(self).__name__} overrides __getitem__ and has a transform, which would not "
                "be called: transform each sample in __getitem__, or do not override it"
            )
        return leg.planned(part, block_rows=block_rows)

    def samples(self, block: Block) -> Iterator[Any]:
        """Yield the samples of a block one by one, made by ``__getitem__`` where it is overridden.

        Hold the block meanwhile: that keeps its shards open.
        """
        if self._makes_samples:
            yield from map(self.__getitem__, block.numbers())
            return
        yield from of_batch(block.batch, self.options)

    @property
    def _makes_samples(self) -> bool:
        """Whether samples are made one by one, rather than cut out of whole columns."""
        if overrides(type(self)):
            return True
        return self.options.transform is None and self._sample.decodes and not self._sample.is_row


def overrides(class_: type) -> bool:
    """Whether a subclass makes samples of its own, which whole batches would pass by."""
    return any(
        getattr(class_, method) is not getattr(DatasetSamples, method)
        for method in ("__getitem__", "get_item")
    )
