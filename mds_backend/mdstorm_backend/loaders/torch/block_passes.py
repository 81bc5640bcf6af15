"""`BlockPasses`: the passes of a `StreamingDataLoader` that reads blocks of its dataset."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from mdstorm_backend.base.checks import overrides
from mdstorm_backend.loaders import (
    MOST_UNUSED,
    Loader,
    NumberedBatches,
    Segment,
    Trace,
    converted,
)
from mdstorm_backend.loaders.torch import moved_batches, torch_batches, torch_tensors
from mdstorm_backend.loaders.torch.batch_workers import BatchWorkers
from mdstorm_backend.loaders.torch.collation import collate_samples
from mdstorm_backend.loaders.torch.counted_pass import CountedPass
from mdstorm_backend.loaders.torch.loader_passes import LoaderPasses
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset, makes_samples

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class BlockPasses(LoaderPasses):
    """Passes over the batches of a `StreamingDataset`, which are read as blocks.

    Attributes
    ----------
    passes : Loader or None
        The loop and its position; None before the first use, which opens the dataset.
    workers : BatchWorkers or None
        The persistent worker processes.
    """

    passes: Loader | None = None
    workers: BatchWorkers | None = None

    def __copy__(self) -> Self:
        """Return a copy for a loader over the same dataset, without running iterations."""
        return replace(super().__copy__(), passes=None, workers=None)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy with its own dataset, which resumes at this position."""
        passes = self.passes
        position = None if passes is None else passes.position_of_copy()
        resumes = None if position is None or passes is None else (passes.epochs, position)
        return {**super().__getstate__(), "resumes": resumes}

    @property
    def counted(self) -> CountedPass | None:
        """The latest pass, if its samples are counted and it was not a peek that has been left."""
        is_left_peek = self.passes is not None and self.passes.is_left_peek
        return None if is_left_peek else super().counted

    @property
    def num_samples(self) -> int:
        """Number of samples that the iteration that was advanced last has yielded."""
        if self.counted is None and self.passes is not None:
            return self.passes.rows
        return super().num_samples

    def end(self) -> None:
        """End running iterations, with their threads and processes."""
        super().end()
        self._end_workers()

    def _end_workers(self) -> None:
        """End the persistent workers; workers of a running iteration end with that iteration."""
        workers, self.workers = self.workers, None
        if workers is not None and not workers.is_busy:
            workers.shutdown()

    def loop(self, loader: DataLoader[Any]) -> Loader:
        """Return the loop over a loader's dataset, with the loader's settings."""
        opened = source_of(loader)._mdstorm
        assert loader.batch_size is not None
        options = replace(
            opened.options,
            batch_size=loader.batch_size,
            drop_last=loader.drop_last,
            num_workers=loader.num_workers,
        )
        epochs = opened.epochs
        if self.passes is None:
            self.passes = Loader(options, self.threads, recorder=self.recorder, epochs=epochs)
        else:
            self.passes.options, self.passes.epochs = options, epochs
        return self.passes

    def length(self, loader: DataLoader[Any]) -> int:
        """Return the number of batches in a pass, unless the next passes have different numbers."""
        if overrides(loader.dataset, StreamingDataset, "__len__"):
            return super().length(loader)
        if not self.has_length:
            raise TypeError(
                "this loader has no length: it resumed with a different number of processes, so "
                "its first epoch may have fewer batches than the others. Count the batches as you "
                "iterate"
            )
        return self.loop(loader).length()

    def set_epoch(self, loader: Any, epoch: int) -> None:
        """Choose the epoch of the next iteration."""
        # From now on, the state of the dataset is this loader's.
        source_of(loader)._mdstorm.latest = self.loop(loader)
        super().set_epoch(loader, epoch)

    def batches(self, loader: Any) -> Generator[Any, None, None]:
        """Run a pass over a loader's dataset, and yield its batches."""
        self.counted_pass = None
        loop, collate = self.loop(loader), collate_of(loader)
        if collate is None:
            torch_tensors.check_columns(loop.options)
        source_of(loader)._mdstorm.latest = loop
        yield from loop.run(partial(self._make_batches, loader, collate))

    def _make_batches(
        self, loader: DataLoader[Any], collate: torch_batches.Collate | None, segment: Segment
    ) -> Sequence[Any]:
        made = torch_batches.OutputBatches(source_of(loader), segment, collate, self.batch_map)
        stages: list[Any] = []
        num_workers = segment.options.num_workers  # the loader's when the pass began
        if not num_workers:
            stages += converted(made.blocks(), made.converted)
        else:
            stages.append(self._from_workers(loader, made))
        if self.device is not None:
            moved = moved_batches.on_device(stages[-1], self.device, made.rows_together)
            stages.append(moved)
        # PyTorch itself pins the batches of worker processes.
        elif loader.pin_memory and not num_workers and torch.cuda.is_available():
            are_dicts = collate is None and self.batch_map is None
            stages.append(moved_batches.pinned(stages[-1], are_dicts=are_dicts))
        return stages

    def _from_workers(
        self, loader: DataLoader[Any], made: torch_batches.OutputBatches
    ) -> NumberedBatches:
        workers = self.workers
        if workers is None or workers.is_busy or not workers.can_read(made.segment):
            self._end_workers()
            workers = BatchWorkers(made, loader)
            self.workers = workers if loader.persistent_workers else None
        try:
            yield from workers.batches(made.segment)
        except Exception:
            self._end_workers()
            raise
        finally:
            if self.workers is not workers:
                workers.shutdown()


class PlannedPasses(BlockPasses):
    """Passes whose batches are known before they are read, so that a state can be of any batch."""

    def state_dict(self, loader: Any) -> dict[str, Any] | None:
        """Return the state of the passes; changed settings do not apply to a running pass."""
        if self.counted is not None:  # by a subclass that iterates over PyTorch's loader itself
            return super().state_dict(loader)
        passes = self.passes
        return (passes if passes and passes.is_within else self.loop(loader)).state_dict()

    def load_state_dict(self, loader: DataLoader[Any], state: Any, skip_batches: int) -> None:
        """Resume the next pass over a loader's dataset `skip_batches` batches after a state."""
        loop = self.loop(loader)
        loop.load_state_dict(state, skip_batches)
        self.counted_pass, source_of(loader)._mdstorm.latest = None, loop

    def trace(self, loader: DataLoader[Any], state: dict[str, Any] | None) -> Trace:
        """Return which rows the batches have, without reading data."""
        return self.loop(loader).trace(state)


class CountedBlockPasses(BlockPasses):
    """Passes over a dataset with its own state methods, which expect a number of samples."""

    def load_state_dict(self, loader: DataLoader[Any], state: Any, skip_batches: int) -> None:
        """Resume the next iteration over the dataset from a state."""
        super().load_state_dict(loader, state, skip_batches)
        self.passes = None

    def batches(self, loader: Any) -> Generator[Any, None, None]:
        """Run a pass, and count the samples in each segment of it."""
        segment, loop = None, self.loop(loader)
        counted, epochs = CountedPass.over(loader.dataset), loop.epochs
        with closing(super().batches(loader)) as batches:
            for batch in batches:
                rows, samples = loader._get_batch_size(batch), counted.samples
                if loop.segment is not segment:  # its beginning is the end of the previous one
                    segment, samples = loop.segment, (*samples[:-1], 0)
                # Nothing is called here, since Ctrl-C in a call would lose the batch.
                counted.samples = (*samples[-MOST_UNUSED:], samples[-1] + rows)
                self.counted_pass, counted.changes = counted, epochs.changes
                yield batch


def source_of(loader: DataLoader[Any]) -> StreamingDataset:
    """Return the dataset of a loader, which must be a `StreamingDataset`."""
    assert isinstance(loader.dataset, StreamingDataset)
    return loader.dataset


def loop_of(loader: Any) -> Loader:
    """Return the loop of a loader that reads blocks."""
    passes: BlockPasses = loader._mdstorm
    return passes.loop(loader)


def collate_of(loader: DataLoader[Any]) -> torch_batches.Collate | None:
    """Return the function that makes batches of samples; None to make them of whole columns."""
    collate = loader.collate_fn  # may have been assigned since the loader was made
    is_default = collate is collate_samples and not makes_samples(loader.dataset)
    return None if is_default else collate
