"""`LoaderPasses`: the passes of a `StreamingDataLoader` over its data, and the loader's state.

PyTorch makes the batches if the dataset is not a `StreamingDataset` or overrides ``__iter__``, or
if there is no batch size. The rows of these batches are counted for the state, and each row counts
as one sample of the dataset, as in MosaicML Streaming's loader.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence, Sized
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch.utils.data import DataLoader

from mdstorm_backend.base.threads import PassThreads
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders import (
    CONSUMER,
    MOST_UNUSED,
    Consumer,
    Loader,
    NumberedBatches,
    Recorder,
    Segment,
    converted,
)
from mdstorm_backend.loaders.torch import moved_batches, torch_batches, torch_tensors
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset
from mdstorm_backend.order import Position

#: Where an iteration began, or None for the beginning of the epoch that began last; the number of
#: samples used since; and whether its end was used.
Counted: TypeAlias = tuple[Position | None, int, bool]


@dataclass
class CountedPass:
    """The position of an iteration whose batches PyTorch makes, counted in samples.

    Attributes
    ----------
    start : Position or None
        Where the iteration began; None for the beginning of the epoch that began last.
    consumer : Consumer
        The code that takes the batches.
    samples : tuple of int
        Number of samples since `start` after each of the latest batches, ending with the latest
        one.
    is_over : bool
        Whether the end was requested.
    """

    start: Position | None = None
    consumer: Consumer = field(default_factory=CONSUMER.get)
    samples: tuple[int, ...] = (0,)
    is_over: bool = False

    @property
    def position(self) -> Counted:
        """The position after the used batches."""
        unused = self.consumer.num_unused
        used = self.samples[max(len(self.samples) - 1 - unused, 0)]
        return self.start, used, self.is_over and not unused


@dataclass
class LoaderPasses:
    """A loader's settings and passes, in one attribute so that subclasses can use any other name.

    Attributes
    ----------
    options : mapping
        Arguments of ``DataLoader``, as given.
    batch_map : callable or None
        The function applied to each batch.
    device : torch.device or None
        The device that tensors are copied to.
    collates : bool
        Whether batches are collated from lists of samples rather than made from whole columns.
    reads_blocks : bool
        Whether batches are read as blocks rather than made by PyTorch from what the dataset yields.
    passes : Loader or None
        The loop and its position; None before the first use, which opens the dataset.
    workers : Workers or None
        The persistent worker processes.
    pytorch_pass : CountedPass or None
        The pass that was advanced last, if PyTorch makes its batches; None if that pass belongs to
        `passes`.
    has_length : bool
        Whether ``len`` is available to callers that assume that all passes have the same length.
    """

    options: Mapping[str, Any]
    batch_map: torch_batches.BatchMap | None
    device: torch.device | None
    collates: bool
    reads_blocks: bool
    passes: Loader | None = None
    workers: torch_batches.Workers | None = None
    threads: PassThreads = field(default_factory=PassThreads)
    recorder: Recorder = field(default_factory=Recorder)
    pytorch_pass: CountedPass | None = None
    has_length: bool = True

    def __copy__(self) -> LoaderPasses:
        """Return a copy for a loader over the same dataset, without running iterations."""
        counted = None
        if (position := self.counted) is not None:
            start, samples, is_over = position
            counted = CountedPass(start, Consumer(), (samples,), is_over)
        return replace(
            self,
            passes=None,
            workers=None,
            threads=PassThreads(),
            recorder=Recorder(),
            pytorch_pass=counted,
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
    def counted(self) -> Counted | None:
        """The position of the latest pass, if the samples in its batches are counted."""
        if self.pytorch_pass is not None:
            return self.pytorch_pass.position
        return None if self.passes is None else self.passes.counted_position()

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

    def load_state_dict(
        self, loader: DataLoader[Any], state: object, skip_batches: int = 0
    ) -> None:
        """Resume the next pass over a loader's dataset `skip_batches` batches after a state."""
        passes = self.of(loader)
        passes.load_state_dict(state, skip_batches)
        self.pytorch_pass, source_of(loader)._mdstorm.latest = None, passes

    def run(
        self, loader: DataLoader[Any], count_rows: Callable[[Any], int] | None = None
    ) -> Generator[Any, None, None]:
        """Run a pass and yield its batches.

        Parameters
        ----------
        loader : DataLoader
            A loader whose dataset is a `StreamingDataset`.
        count_rows : callable, optional
            Returns how many samples a batch counts as; by default, the number read for it.
        """
        self.pytorch_pass = None
        passes = self.of(loader)
        if not self.collates:
            torch_tensors.check_columns(passes.options)
        source_of(loader)._mdstorm.latest = passes
        yield from passes.run(partial(self._make_batches, loader), count_rows)

    def _make_batches(self, loader: DataLoader[Any], segment: Segment) -> Sequence[Any]:
        collate = loader.collate_fn if self.collates else None
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
            are_dicts = not self.collates and self.batch_map is None
            stages.append(moved_batches.pinned(stages[-1], are_dicts=are_dicts))
        return stages

    def _from_workers(
        self, loader: DataLoader[Any], made: torch_batches.OutputBatches
    ) -> NumberedBatches:
        workers = self.workers
        if workers is None or workers.is_busy or not workers.can_read(made.segment):
            self.end_workers()
            workers = torch_batches.Workers(made, self.options)
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


def counted_batches(
    loader: DataLoader[Any], kept: LoaderPasses, count_rows: Callable[[Any], int]
) -> Generator[Any, None, None]:
    """Iterate with PyTorch's own loader, counting the rows that it yields."""
    is_ours = isinstance(loader.dataset, StreamingDataset)
    counted = CountedPass(source_of(loader)._mdstorm.epochs.next_position if is_ours else None)
    batches: NumberedBatches = ((batch, 0, 0) for batch in DataLoader.__iter__(loader))
    if kept.device is not None:
        batches = moved_batches.on_device(batches, kept.device)
    recorder = kept.recorder
    recorder.begin()
    kept.pytorch_pass = counted
    for batch, _, _ in recorder.consumed(batches):
        rows = count_rows(batch)
        # This call precedes the counting, since Ctrl-C in a call after it would lose the batch.
        recorder.record_received([rows])
        samples = counted.samples
        counted.samples = (*samples[-MOST_UNUSED:], samples[-1] + rows)
        kept.pytorch_pass = counted  # another iteration may have been advanced in the meantime
        yield batch
        recorder.record_request()
    counted.is_over, kept.pytorch_pass = True, counted
    recorder.record_received()  # the end


def rows_of(batch: Any, batch_size: int | None) -> int:
    """Return the number of samples in a batch.

    Parameters
    ----------
    batch : object
        A mapping of columns, a tensor, a list of samples, or a list or tuple of columns. Anything
        else counts as a full batch.
    batch_size : int or None
        Number of rows in a full batch; None if batches are single samples.

    Raises
    ------
    InvalidArgumentError
        If the batch is a mapping without columns.
    """
    if batch_size is None:
        return 1
    if isinstance(batch, Mapping):
        if not batch:
            raise InvalidArgumentError("Batch is empty: it has no columns to count rows by")
        columns = list(batch.values())
    elif isinstance(batch, torch.Tensor):
        columns = [batch]
    elif isinstance(batch, (list, tuple)) and batch:
        if isinstance(batch[0], (Mapping, str, bytes)):
            return len(batch)
        columns = list(batch)
    else:
        columns = []
    return next((len(column) for column in columns if _has_rows(column)), batch_size)


def _has_rows(column: Any) -> bool:
    if isinstance(column, torch.Tensor):
        return column.ndim > 0
    return isinstance(column, Sized) and not isinstance(column, (str, bytes))
