"""`SampleIteration`: an iteration over single samples.

It is never a peek, and this process either reads all of it or, as a worker of a plain
``DataLoader``, a part.

Workers of PyTorch's ``DataLoader`` have no state. Torchdata's ``StatefulDataLoader`` requests a
state from each worker after every batch, and passes it to the same worker on resumption.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, pairwise
from typing import Any

from mdstorm_backend.base.recorder import current_recorder
from mdstorm_backend.loaders.agreement import compare_pass, is_compared
from mdstorm_backend.loaders.consumer import Consumer, Usage
from mdstorm_backend.loaders.epochs import Epochs, Worker
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.segment import Segment
from mdstorm_backend.loaders.state import check_equal, read_state, write_state
from mdstorm_backend.order import Plan, Position
from mdstorm_backend.order.state_values import damaged, number
from mdstorm_backend.read import Block

#: Key in a state that holds a worker's number and position.
_WORKER = "worker"


def plan_of_samples(options: ReaderOptions, epochs: Epochs, start: Position | None = None) -> Plan:
    """Return the plan of the latest epoch, or else of the next one, in batches of one sample.

    With `start`, return the plan of the iteration that began there.
    """
    here, begin = options.in_world(), start or epochs.epoch_start or epochs.next_position
    if start is not None and (segment := Segment(here, start).with_batches()):
        begin = replace(segment.start, first_epoch=segment.start.pass_epoch)
    return here.plan(begin)


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
    replaced_after : int or None
        The value of `yielded` when an epoch was set in this segment; otherwise None. Until the next
        sample is yielded, the position is where the next iteration begins.

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
    replaced_after: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        state = self.state
        self._part, self.yielded = self.worker.number, 0
        #: The offset before the latest block and those of its batches, each with the number of
        #: samples in the segment up to it.
        self._offsets = [(0, 0)]
        #: The offset at which batches begin to hold samples of a later epoch.
        self._border = 0
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
        return self.epochs.begin(consumer, None if worker.group is None else worker)

    @property
    def _reading(self) -> ReaderOptions:
        """The options for reading, where damage is always an error.

        PyTorch counts the samples that it receives, so skipping one would shift states and batches.
        """
        worker = self.worker
        size = self.batch_size or (self.options.samples_at_a_time if worker.count > 1 else 1)
        here = self.options.in_world(worker.world)
        steps = replace(here.steps, on_corrupt="raise")
        return replace(here, batch_size=size, num_workers=worker.count, steps=steps)

    def _begun(self, usage: Usage) -> Iterator[Segment]:
        """Yield the segments of an iteration that begins; a worker takes part in its group's."""
        recorder = current_recorder() if self.worker.group is None else None
        if (first := Segment(self._reading, usage.start, recorder).with_batches()) is None:
            return
        if is_compared(first):
            compare_pass(first, self.epochs)
        for segment in first.onward():
            self.epochs.enter(usage, segment.position)
            yield segment

    def _resumed(self, state: Mapping[str, Any]) -> Iterator[Segment]:
        """Yield the segments of an iteration that resumes from a state of this worker."""
        here = self._reading
        position = read_state(state, here, of_worker=True)
        num_epochs, first = here.num_epochs, position.pass_epoch
        following = position.epoch + 1 if num_epochs is None else first + num_epochs
        self.epochs.resume_as_worker(position, following, self.worker.number)
        segments = Segment(here, replace(position, first_epoch=first)).onward()
        yield from (segment for segment in segments if not segment.is_over)

    @property
    def is_over(self) -> bool:
        """Whether the end was requested."""
        return self._usage is not None and self._usage.is_over

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy that has the same position but yields no samples."""
        return {**self.__dict__, "_segments": iter(()), "_usage": copy(self._usage)}

    def segments(self) -> Iterator[tuple[Segment, int]]:
        """Yield each `Segment` to read, with the number of this process's part of it."""
        while self._segment is not None:
            epoch = self._segment.position.epoch
            self._border = self._segment.plan.offset_after_epoch(epoch)
            yield self._segment, self._part
            following = next(self._segments, None)
            if following is None:  # keep the last segment, since the state is at its end
                break
            self._segment, self._part = following, self.worker.number
            self.noted -= self.yielded
            self.yielded, self._offsets, self.replaced_after = 0, [(0, 0)], None
        if self._usage is not None:
            self._usage.is_over = True

    def parts(self, block: Block, samples: Iterator[Any]) -> Iterator[Iterator[Any]]:
        """Begin a block, and yield its samples after a loaded state, cut where epochs begin."""
        offset, before = self._offsets[-1]
        ends = accumulate(block.sizes, initial=before)
        self._offsets = list(zip([offset, *block.offsets], ends, strict=True))
        if skipped := self.yielded - before:
            samples = islice(samples, skipped, None)
        if self._usage is not None and self._segment is not None:
            self._usage.batches += 1
            plan, crosses = self._segment.plan, self._offsets[-1][0] >= self._border
            for (_, end), (after, _) in pairwise(self._offsets) if crosses else ():
                if after >= self._border:
                    yield islice(samples, max(end - self.yielded, 0))
                    epoch = plan.position(after).epoch
                    self.epochs.reach(self._usage, epoch)
                    self._border = plan.offset_after_epoch(epoch)
        yield samples

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
