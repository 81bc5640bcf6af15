"""`LoaderPasses`: the passes of a `StreamingDataLoader` over its data, and their batches."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader

from mdstorm_backend.base.work_ahead import PassThreads
from mdstorm_backend.loaders import (
    Consumer,
    Loader,
    NumberedBatches,
    Recorder,
    Segment,
    converted,
)
from mdstorm_backend.loaders.torch import moved_batches, torch_batches, torch_tensors
from mdstorm_backend.loaders.torch.collation import collate_samples
from mdstorm_backend.loaders.torch.counted_pass import CountedPass
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset, makes_samples


@dataclass
class LoaderPasses:
    """A loader's settings and passes, in one attribute so that subclasses can use any other name.

    Attributes
    ----------
    batch_map : callable or None
        The function applied to each batch.
    device : torch.device or None
        The device that tensors are copied to.
    reads_blocks : bool
        Whether batches are read as blocks rather than made by PyTorch from what the dataset yields.
    passes : Loader or None
        The loop and its position; None before the first use, which opens the dataset.
    workers : Workers or None
        The persistent worker processes.
    counted_pass : CountedPass or None
        The pass that was advanced last, if its samples are counted; otherwise None.
    has_length : bool
        Whether ``len`` is available to callers that assume that all passes have the same length.
    """

    batch_map: torch_batches.BatchMap | None
    device: torch.device | None
    reads_blocks: bool
    passes: Loader | None = None
    workers: torch_batches.Workers | None = None
    threads: PassThreads = field(default_factory=PassThreads)
    recorder: Recorder = field(default_factory=Recorder)
    counted_pass: CountedPass | None = None
    has_length: bool = True

    def __copy__(self) -> LoaderPasses:
        """Return a copy for a loader over the same dataset, without running iterations."""
        counted = None
        if self.counted is not None:
            _, samples, is_over = self.counted.position
            counted = replace(
                self.counted, consumer=Consumer(), samples=(samples,), is_over=is_over
            )
        return replace(
            self,
            passes=None,
            workers=None,
            threads=PassThreads(),
            recorder=Recorder(),
            counted_pass=counted,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy with its own dataset, which resumes at this position."""
        passes = self.passes
        position = None if passes is None else passes.position_of_copy()
        resumes = None if position is None or passes is None else (passes.epochs, position)
        return {**copy(self).__dict__, "resumes": resumes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        resumes = state.pop("resumes")
        self.__dict__.update(state)
        if resumes is not None:
            epochs, position = resumes
            epochs.resume(position)

    @property
    def counted(self) -> CountedPass | None:
        """The latest pass, if its samples are counted and the position is within it."""
        counted, passes = self.counted_pass, self.passes
        is_left_peek = passes is not None and passes.is_left_peek
        return None if counted is None or counted.is_outdated or is_left_peek else counted

    def end_workers(self) -> None:
        """End the persistent workers; workers of a running iteration end with that iteration."""
        workers, self.workers = self.workers, None
        if workers is not None and not workers.is_busy:
            workers.shutdown()

    def of(self, loader: DataLoader[Any]) -> Loader:
        """Return the passes over a loader's dataset."""
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

    def state_dict(self, loader: DataLoader[Any]) -> dict[str, Any]:
        """Return the state of the passes; changed settings do not apply to a running pass."""
        passes = self.passes
        return (passes if passes and passes.is_within else self.of(loader)).state_dict()

    def load_state_dict(
        self, loader: DataLoader[Any], state: object, skip_batches: int = 0
    ) -> None:
        """Resume the next pass over a loader's dataset `skip_batches` batches after a state."""
        passes = self.of(loader)
        passes.load_state_dict(state, skip_batches)
        self.counted_pass, source_of(loader)._mdstorm.latest = None, passes

    def run(self, loader: DataLoader[Any]) -> Generator[Any, None, None]:
        """Run a pass over a loader's dataset, a `StreamingDataset`, and yield its batches."""
        self.counted_pass = None
        passes, collate = self.of(loader), collate_of(loader)
        if collate is None:
            torch_tensors.check_columns(passes.options)
        source_of(loader)._mdstorm.latest = passes
        yield from passes.run(partial(self._make_batches, loader, collate))

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
            self.end_workers()
            workers = torch_batches.Workers(made, loader)
            self.workers = workers if loader.persistent_workers else None
        try:
            yield from workers.batches(made.segment)
        except Exception:
            self.end_workers()
            raise
        finally:
            if self.workers is not workers:
                workers.shutdown()


def source_of(loader: DataLoader[Any]) -> StreamingDataset:
    """Return the dataset of a loader, which must be a `StreamingDataset`."""
    assert isinstance(loader.dataset, StreamingDataset)
    return loader.dataset


def collate_of(loader: DataLoader[Any]) -> torch_batches.Collate | None:
    """Return the function that makes batches of samples; None to make them of whole columns."""
    collate = loader.collate_fn  # may have been assigned since the loader was made
    is_default = collate is collate_samples and not makes_samples(loader.dataset)
    return None if is_default else collate
