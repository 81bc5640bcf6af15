"""`LoaderPasses`: the passes of a `StreamingDataLoader` over its data, and the loader's state.

PyTorch makes the batches if the dataset is not a `StreamingDataset` or overrides ``__iter__``, or
if there is no batch size. The rows of these batches are counted for the state, and each row counts
as one sample of the dataset, as in MosaicML Streaming's loader. Rows are also counted for a dataset
with its own state methods, which expect a number of samples.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Sized
from contextlib import closing
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
    Epochs,
    Loader,
    NumberedBatches,
    Recorder,
    Segment,
    converted,
)
from mdstorm_backend.loaders.torch import moved_batches, torch_batches, torch_tensors
from mdstorm_backend.loaders.torch.collation import collate_samples
from mdstorm_backend.loaders.torch.sent_batches import (
    collated_and_pickled,
    from_workers,
    queues_to_workers,
)
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset, makes_samples
from mdstorm_backend.order import Position

#: Returns the number of samples in a batch.
CountRows: TypeAlias = Callable[[Any], int]


@dataclass
class CountedPass:
    """The position of an iteration, counted in samples.

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
    epochs : Epochs or None
        Where the next iteration over the dataset begins; None if the dataset is of another class.
    changes : int
        The value of `Epochs.changes` when the latest batch was taken.
    """

    start: Position | None = None
    consumer: Consumer = field(default_factory=CONSUMER.get)
    samples: tuple[int, ...] = (0,)
    is_over: bool = False
    epochs: Epochs | None = None
    changes: int = 0

    @classmethod
    def over(cls, dataset: object) -> CountedPass:
        """Return the beginning of the next iteration over a dataset."""
        if not isinstance(dataset, StreamingDataset):
            return cls()
        epochs = dataset._mdstorm.epochs
        return cls(epochs.next_position, epochs=epochs, changes=epochs.changes)

    @property
    def is_outdated(self) -> bool:
        """Whether a state was loaded, or an epoch set, since the latest batch."""
        return self.epochs is not None and self.epochs.changes != self.changes

    @property
    def position(self) -> tuple[Position | None, int, bool]:
        """The position after the used batches: where the iteration began, samples, whether over."""
        unused = self.consumer.num_unused
        used = self.samples[max(len(self.samples) - 1 - unused, 0)]
        return self.start, used, self.is_over and not unused


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
        counted = self.counted_pass
        return None if counted is None or counted.is_outdated else counted

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

    def run_counted(
        self, loader: DataLoader[Any], count_rows: CountRows
    ) -> Generator[Any, None, None]:
        """Run a pass like `run`, and count the samples in each segment of it."""
        segment, loop = None, self.of(loader)
        counted, epochs = CountedPass.over(loader.dataset), loop.epochs
        with closing(self.run(loader)) as batches:
            for batch in batches:
                rows, samples = count_rows(batch), counted.samples
                if loop.segment is not segment:  # its beginning is the end of the previous one
                    segment, samples = loop.segment, (*samples[:-1], 0)
                # Nothing is called here, since Ctrl-C in a call would lose the batch.
                counted.samples = (*samples[-MOST_UNUSED:], samples[-1] + rows)
                self.counted_pass, counted.changes = counted, epochs.changes
                yield batch

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


def counted_batches(
    loader: DataLoader[Any], kept: LoaderPasses, count_rows: CountRows
) -> Generator[Any, None, None]:
    """Iterate with PyTorch's own loader, counting the rows that it yields."""
    counted = CountedPass.over(loader.dataset)
    epochs = counted.epochs
    made = _made_by_workers(loader) if loader.num_workers else DataLoader.__iter__(loader)
    batches: NumberedBatches = ((batch, 0, 0) for batch in made)
    if kept.device is not None:
        batches = moved_batches.on_device(batches, kept.device)
    recorder = kept.recorder
    recorder.begin()
    kept.counted_pass = counted
    for batch, _, _ in recorder.consumed(batches):
        rows = count_rows(batch)
        # This call precedes the counting, since Ctrl-C in a call after it would lose the batch.
        recorder.record_received([rows])
        samples, counted.changes = counted.samples, 0 if epochs is None else epochs.changes
        counted.samples = (*samples[-MOST_UNUSED:], samples[-1] + rows)
        kept.counted_pass = counted  # another iteration may have been advanced in the meantime
        yield batch
        recorder.record_request()
    counted.is_over, kept.counted_pass = True, counted
    recorder.record_received()  # the end


def _made_by_workers(loader: DataLoader[Any]) -> Iterator[Any]:
    """Iterate with PyTorch's own loader, whose worker processes pickle their batches."""
    queues_to_workers(loader, loader.num_workers)  # raises an error if there is no room for them
    collate = loader.collate_fn
    loader.collate_fn = partial(collated_and_pickled, collate)
    try:
        batches = DataLoader.__iter__(loader)
    finally:
        loader.collate_fn = collate
    return from_workers(batches)


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
