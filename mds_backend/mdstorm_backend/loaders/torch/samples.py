"""Single samples: `SampleMaker` makes them, and a `SampleIteration` iterates over them.

Such an iteration is never a peek, and this process either reads all of it or, as a worker of a
plain ``DataLoader``, a part.

Workers of PyTorch's ``DataLoader`` have no state. Torchdata's ``StatefulDataLoader`` requests a
state from each worker after every batch, and passes it to the same worker on resumption.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from multiprocessing import connection, parent_process
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.recorder import current_recorder
from mdstorm_backend.datasets import Dataset, open_streams
from mdstorm_backend.format import DTYPES, Batch, Column, is_number
from mdstorm_backend.format.values.nested_lists import elements_of
from mdstorm_backend.loaders.agreement import compare_pass, is_compared
from mdstorm_backend.loaders.consumer import Consumer
from mdstorm_backend.loaders.epochs import Epochs, Usage, Worker
from mdstorm_backend.loaders.nulls import check_exact
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.segment import Segment, plan_of
from mdstorm_backend.loaders.state import check_equal, damaged, number, read_state, write_state
from mdstorm_backend.order import Plan, Position
from mdstorm_backend.read import Block, column_to_numpy, decoded_images, gather_rows

#: Number of samples that ``DataLoader`` workers read at a time if no batch size is given.
SAMPLES_AT_A_TIME = 1024
#: Key in a state that holds a worker's number and position.
_WORKER = "worker"
#: Id of the process in which `end_with_parent` was called; a forked process has a different id.
_guarded: list[int] = []


class SampleMaker:
    """Makes samples: dicts from column to value.

    Parameters
    ----------
    options : ReaderOptions
        How the dataset is read. Its transform is not applied, as it works on many samples at once.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._options = replace(options, transform=None)
        self._dataset = options.dataset
        self._columns = options.columns

    @cached_property
    def decodes(self) -> bool:
        """Whether the format's decoder suffices to make samples: no nulls, no images to decode."""
        options = self._options
        if options.fill_nulls or options.null_masks or options.images is not None:
            return False
        return not any(column.has_nulls for column in self._dataset.schema)

    @cached_property
    def is_row(self) -> bool:
        """Whether all columns are numeric, so that cutting samples from whole columns is faster."""
        dataset = self._dataset.all_rows
        parts = dataset.parts if isinstance(dataset, open_streams.JoinedDataset) else [dataset]
        return self.decodes and all(
            isinstance(part, Dataset)
            and part.schema.names == dataset.schema.names
            and all(_is_number(column, part) for column in part.schema)
            for part in parts
        )

    def __call__(self, number: int) -> dict[str, Any]:
        """Return one sample by its number in stored order."""
        if self._finish is not None:
            sample = self._dataset.sample(number, self._columns)
            for name, finish in self._finish.items():
                sample[name] = finish(sample[name])
            return sample
        shard, _ = self._dataset.locate(number)
        located = self._dataset.located(range(number, number + 1))
        located.shards = [self._dataset.shard(shard)]
        batch = self._gather([located])
        if not self._options.nulls.is_trivial:
            batch = self._options.nulls(batch)
        if self._options.images is not None:
            with decoded_images.reading_samples(lambda: [number]):
                batch = self._options.images(batch)
        return next(of_batch(batch, self._options))

    @cached_property
    def _finish(self) -> dict[str, Callable[[Any], Any]] | None:
        """Functions by column that convert decoded values as a block would; None: read a block."""
        if self.decodes:
            return {}
        if not self._options.nulls.is_trivial or self._options.images is not None:
            return None
        columns = [c for c in self._options.schema if c.has_nulls and not _is_text(c)]
        found = {column.name: _of_null_column(column) for column in columns}
        finish = {name: function for name, function in found.items() if function is not None}
        return finish if len(finish) == len(found) else None

    @cached_property
    def _gather(self) -> gather_rows.Gatherer:
        options = self._options
        return gather_rows.Gatherer(options.schema, exact_nulls=not options.nulls.is_trivial)

    def __reduce__(self) -> tuple[Any, ...]:
        return SampleMaker, (self._options,)  # cached properties hold locks


def of_batch(batch: Batch, options: ReaderOptions) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as samples."""
    columns = {}
    for name, values in batch.items():
        column = options.column(name)
        if column is not None and column.has_nulls and not isinstance(values, np.ndarray):
            check_exact(elements_of(values), name)
        columns[name] = column_to_numpy(values, column)
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def _is_number(column: Column, dataset: Dataset) -> bool:
    """Whether all values have the same NumPy type, decoded individually or as a column."""
    encoding = column.parsed_encoding
    if encoding.kind not in DTYPES or not is_number(column.arrow_type):
        return False
    if column.spark_type is not None:
        return True
    # A value decoded individually has the type that its shard stores.
    return len({shard.column_encodings for shard in dataset.index.shards}) == 1


def _of_null_column(column: Column) -> Callable[[Any], Any] | None:
    """Return a function that converts numbers and nulls like `of_batch`; None for other types."""
    if column.is_late or column.is_array:
        return None
    type_ = column.arrow_type
    if pa.types.is_floating(type_):
        kind = column.parsed_encoding.dtype
        return None if kind is None else partial(_or_nan, kind.type)
    if pa.types.is_integer(type_):
        return partial(_exact, column.name)
    if pa.types.is_boolean(type_):
        return partial(_or_nan, np.float64)
    return None


def _is_text(column: Column) -> bool:
    """Whether decoded values are strings or bytes, which need no conversion."""
    type_ = column.arrow_type
    return not column.is_late and (pa.types.is_string(type_) or pa.types.is_binary(type_))


def _or_nan(kind: Callable[[Any], Any], value: Any) -> Any:
    return kind(math.nan if value is None else value)


def _exact(name: str, value: Any) -> Any:
    if value is not None and abs(value) >= 1 << 53:
        check_exact(pa.array([value]), name)
    return _or_nan(np.float64, value)


def plan_of_samples(options: ReaderOptions, epochs: Epochs, start: Position | None = None) -> Plan:
    """Return the plan of the latest epoch, or else of the next one, in batches of one sample.

    With `start`, return the plan of the iteration that began there.
    """
    here, begun = options.in_world(), start or epochs.begun or epochs.next_position
    if start is not None and (segment := Segment(here, start).with_batches()):
        begun = replace(segment.start, first_epoch=segment.start.pass_epoch)
    return plan_of(here, begun)


@dataclass(eq=False)
class SampleIteration:
    """An iteration over samples, or a worker's part of one, and its position.

    Creating it begins the iteration.

    Parameters
    ----------
    options : ReaderOptions
        The data to read, and how.
    epochs : Epochs
        Shared with other workers.
    batch_size : int or None
        The batch size of the dataset.
    worker : Worker
        This process among the workers.
    state : mapping, optional
        The worker state to resume from; without it, a pass begins.

    Attributes
    ----------
    yielded : int
        Samples yielded since the segment began, including those of its first batch that are skipped
        because of a state.
    noted : int
        How many of these samples `OpenedDataset.record_items` has accounted for; negative for
        samples in earlier segments.

    Raises
    ------
    StateMismatchError
        If the state belongs to a different worker, dataset, order or world.
    """

    options: ReaderOptions
    epochs: Epochs
    batch_size: int | None
    worker: Worker
    state: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        state = self.state
        self._part, self.yielded = self.worker.number, 0
        #: The offset before the latest block and those of its batches, each with the number of
        #: samples in the segment up to it.
        self._offsets = [(0, 0)]
        #: None if a worker process has resumed from a state of its own.
        self._usage: Usage | None = None
        if state is None:
            self._usage = self._begin()
            self._segments = self._begun(self._usage)
        else:
            here, there = self._here(), state["mdstorm"][_WORKER]
            if missing := [key for key in here if key not in there]:
                raise damaged(f"it has no {missing} of its worker")
            check_equal(there, here, self.options.dataset.url)
            self._part, self.yielded = number(there, "part"), number(there, "rows")
            self._segments = self._resumed(state)
        self.noted, self._segment = self.yielded, next(self._segments, None)

    def _begin(self) -> Usage:
        worker, here = self.worker, self.options.in_world(self.worker.world)
        if self.batch_size is None:
            here.order.check_batches_unknown(worker.count)
        # None of the latest block has been used yet if only the samples before it were yielded.
        consumer = Consumer(lambda: self.yielded == self._offsets[0][1], peek=0)
        usage = self.epochs.begin(consumer, None if worker.group is None else worker)
        here.record_pass(self.epochs)
        return usage

    @property
    def _reading(self) -> ReaderOptions:
        """The options for reading, where damage is always an error.

        PyTorch counts the samples that it receives, so skipping one would shift states and batches.
        """
        worker = self.worker
        size = self.batch_size or (SAMPLES_AT_A_TIME if worker.count > 1 else 1)
        here = self.options.in_world(worker.world)
        return replace(here, batch_size=size, num_workers=worker.count, on_corrupt="raise")

    def _begun(self, usage: Usage) -> Iterator[Segment]:
        """Yield the segments of an iteration that begins; a worker takes part in its group's."""
        recorder = current_recorder() if self.worker.group is None else None
        is_first = True  # ranks compare only the first segment
        for segment in Segment(self._reading, usage.start, recorder).onward():
            if is_first and is_compared(segment):
                compare_pass(segment, self.epochs)
            is_first = False
            self.epochs.enter(usage, segment.position)
            yield segment

    def _resumed(self, state: Mapping[str, Any]) -> Iterator[Segment]:
        """Yield the segments of an iteration that resumes from a state of this worker."""
        here = self._reading
        position = read_state(state, here, of_worker=True)
        num_epochs, first = here.num_epochs, position.pass_epoch
        following = position.epoch + 1 if num_epochs is None else first + num_epochs
        self.epochs.resume_as_worker(position, following, self.worker.number)
        here.record_pass(self.epochs)
        segment: Segment | None = Segment(here, replace(position, first_epoch=first))
        while segment is not None:
            if not segment.is_over:
                yield segment
            segment = segment.following()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy that has the same position but yields no samples."""
        return {**self.__dict__, "_segments": iter(())}

    def segments(self) -> Iterator[tuple[Segment, int]]:
        """Yield each `Segment` to read, with the number of this process's part of it."""
        while self._segment is not None:
            yield self._segment, self._part
            following = next(self._segments, None)
            if following is None:  # keep the last segment, since the state is at its end
                break
            self._segment, self._part = following, self.worker.number
            self.noted -= self.yielded
            self.yielded, self._offsets = 0, [(0, 0)]
        if self._usage is not None:
            self._usage.is_over = True

    def enter(self, block: Block) -> int:
        """Begin a block, and return how many of its samples to skip because of a loaded state."""
        offset, before = self._offsets[-1]
        ends = accumulate(block.sizes, initial=before)
        self._offsets = list(zip([offset, *block.offsets], ends, strict=True))
        if self._usage is not None:
            self._usage.batches += 1
        return self.yielded - before

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this worker."""
        if (segment := self._segment) is None:  # there was nothing to read
            return self._empty_state() if self.state is None else {**self.state}
        offset, end = [one for one in self._offsets if one[1] <= self.yielded][-1]
        position, part = segment.position, self._part
        if offset:
            position, part = segment.plan.position_of_part(part, offset)
        state = write_state(segment.options, position)
        worker = {**self._here(), "part": part, "rows": self.yielded - end}
        return {**state, "mdstorm": {**state["mdstorm"], _WORKER: worker}}

    def _empty_state(self) -> dict[str, Any]:
        plan = plan_of_samples(self.options, self.epochs)
        beginning = plan.reached(0, from_beginning=True)
        return write_state(self.options.in_world(), beginning)

    def _here(self) -> dict[str, Any]:
        """Return the values that must be equal when a state is taken and when it is loaded."""
        return {
            "number": self.worker.number,
            "num_workers": self.worker.count,
            "batch_size": self.batch_size,
            "world_size": self.options.in_world(self.worker.world).order.world_size,
        }


def is_of_worker(state: object) -> bool:
    """Whether a state belongs to a single worker process rather than a whole loader."""
    ours = state.get("mdstorm") if isinstance(state, Mapping) else None
    return isinstance(ours, Mapping) and isinstance(ours.get(_WORKER), Mapping)


def end_with_parent() -> None:
    """End this process as soon as its parent process has ended for any reason.

    PyTorch's own workers check for their parent every few seconds, when they are idle. Workers that
    had not started when the parent ended mistake its successor for the parent.

    Only `multiprocessing` processes have such a parent; in others, nothing happens.
    """
    parent = parent_process()
    if parent is None or os.getpid() in _guarded:
        return
    _guarded[:] = [os.getpid()]
    threading.Thread(
        target=_watch, args=(parent.sentinel,), name="mdstorm-guard", daemon=True
    ).start()


def _watch(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
