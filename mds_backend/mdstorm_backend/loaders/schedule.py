"""`Schedule`: where iterations over a dataset begin, and the states of the dataset itself.

Each dataset that is read has a `Schedule`. It loads states and counts epochs (`Epochs`). A loader
begins each iteration with `Schedule.open`, which returns a `Pass`.

An iteration over samples, as in a plain ``DataLoader``, has no `Pass`: `Schedule.own_segments`
begins it, and `Schedule.segments_of_worker` resumes it in a worker process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.agreement import Numbering, begin_pass
from mdstorm_backend.loaders.epochs import Epochs, Worker
from mdstorm_backend.loaders.passes import Pass
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.segment import Batching, Segment, plan_of
from mdstorm_backend.loaders.state import read_state, write_state
from mdstorm_backend.order.plan import Plan, Position

#: Samples that the workers of a plain ``DataLoader`` read at a time without a batch size.
SAMPLES_AT_A_TIME = 1024


class Schedule:
    """Where the iterations over a dataset begin, and which of them began last. It can be pickled.

    A share that follows the world is determined whenever it is needed, and once when a pass begins,
    which keeps that share to its end.

    Parameters
    ----------
    options : ReaderOptions
        What to read.
    epochs : Epochs, optional
        Counts the epochs; copies in worker processes must share it.
    """

    def __init__(self, options: ReaderOptions, epochs: Epochs | None = None) -> None:
        self.options = options
        self.epochs = epochs or Epochs()
        self.epochs.first_epoch = options.first_epoch
        if options.tried is not None:
            self.epochs.tried = options.tried
        #: The pass of a loader that began last; None for an iteration over samples.
        self._last: Pass | None = None
        #: Numbers the iterations over samples, to compare them with those of other ranks.
        self._numbering = Numbering()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None, "_numbering": Numbering()}

    @property
    def next_epoch(self) -> int:
        """The index of the next epoch."""
        return self.epochs.next_position.epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self.epochs.set_next(epoch, self.options.num_epochs)

    @property
    def begun(self) -> Position:
        """Where the latest iteration began; before the first one, where that would."""
        return self.epochs.begun or self.epochs.next_position

    def plan(self, batching: Batching = Batching(1)) -> Plan:  # noqa: B008  # frozen
        """Return the plan of a first pass that begins now."""
        return plan_of(self.options.in_world(), batching)

    def open(
        self,
        batching: Batching,
        numbering: Numbering,
        *,
        resumes: Position | None = None,
        may_peek: bool = False,
        is_first: bool = False,
    ) -> Pass:
        """Begin an iteration of a loader, which does not count yet.

        Parameters
        ----------
        batching : Batching
            How batches are made.
        numbering : Numbering
            Numbers the passes of the loader, to compare them with those of other ranks.
        resumes : Position, optional
            Where the iteration starts, instead of where the next one begins.
        may_peek : bool
            Whether the iteration may be left after one batch without counting.
        is_first : bool
            Whether it is the first iteration of its loader.
        """
        epochs, here = self.epochs, self.options.in_world()
        start, moves = epochs.open(resumes)
        is_tried = (start.epoch, start.consumed) in epochs.tried
        may_peek = may_peek and (is_first or epochs.is_loaded) and not is_tried
        epochs.is_loaded = False
        self._last = Pass(epochs, here, batching, numbering, start, moves, 2 if may_peek else 1)
        return self._last

    def own_segments(self, batch_size: int | None, worker: Worker) -> Iterator[Segment]:
        """Begin an iteration over samples, without a loader of ours, and yield its segments.

        It counts from its first sample. A worker process takes part in the epochs of its group.
        """
        here, batching = self._of_samples(worker), self._batching(batch_size, worker)
        if batch_size is None:
            here.order.check_batches_unknown(worker.count)
        joining = None if worker.group is None else worker
        self._last = None
        begun, is_compared = self.epochs.begin(joining), joining is None
        here.record_pass(begun.pass_epoch)
        segment = Segment(here, batching, begun, ahead=self.epochs.ahead)
        while True:
            if not segment.is_over:
                if segment.with_batches() is None:
                    return
                if is_compared and (compared := begin_pass(segment, self._numbering)) is not None:
                    compared.offer()
                is_compared = False
                self.epochs.record_begun(begun, segment.position)
                yield segment
            following = segment.following()
            if following is None and not segment.is_over:
                return
            first = None if following is None else following.start.pass_epoch
            begun = self.epochs.begin(joining, first)
            if following is None:  # the pass was over when the state was taken
                here.record_pass(begun.pass_epoch)
            segment = replace(segment, start=begun)

    def segments_of_worker(
        self, state: Mapping[str, Any], batch_size: int | None, worker: Worker
    ) -> Iterator[Segment]:
        """Resume the iteration of a worker from a state of that worker, and yield its segments.

        Raises
        ------
        StateMismatchError
            If the state belongs to another dataset or another way of reading, or is not a state.
        """
        here, batching = self._of_samples(worker), self._batching(batch_size, worker)
        position = read_state(state, here, batching, of_worker=True)
        num_epochs, first = here.num_epochs, position.pass_epoch
        following = position.epoch + 1 if num_epochs is None else first + num_epochs
        self.epochs.resume_as_worker(position, following, worker.number)
        here.record_pass(first)
        segment: Segment | None = Segment(here, batching, replace(position, first_epoch=first))
        while segment is not None:
            if not segment.is_over:
                yield segment
            segment = segment.following()

    def _of_samples(self, worker: Worker) -> ReaderOptions:
        """Return the options of an iteration over samples, where damage is always an error.

        PyTorch counts the samples that it gets, so a skipped one would shift states and batches.
        """
        return replace(self.options.in_world(worker.world), on_corrupt="raise")

    def _batching(self, batch_size: int | None, worker: Worker) -> Batching:
        default = SAMPLES_AT_A_TIME if worker.count > 1 else 1
        return Batching(batch_size or default, num_workers=worker.count)

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        """Return the state after a number of samples that all ranks together have read.

        They are counted from the beginning of the epoch, or of the pass where batches span epochs;
        without `from_beginning`, from the position where the epoch or pass was resumed.
        """
        plan = self._plan_of_samples()
        if plan.rows_of_rank(plan.begin):  # samples have no numbers
            return self.state_of_samples(num_samples)
        position = plan.reached(num_samples, from_beginning=from_beginning)
        if self._last is not None and self._last.is_at(position):
            return self._last.state_dict()
        return write_state(self.options.in_world(), Batching(1), position)

    def state_of_samples(self, samples: int) -> dict[str, Any]:
        """Return the state of the latest iteration; over samples, after so many of this rank.

        Raises
        ------
        StateMismatchError
            If worker processes read the samples, or their number does not determine a position.
        """
        if self.epochs.num_joined:
            raise StateMismatchError(
                "the samples are read in worker processes, and this one does not know how many "
                "they have yielded: use a StreamingDataLoader and its state_dict(), or "
                "num_workers=0"
            )
        if self._last is not None:
            return self._last.state_dict()
        plan = self._plan_of_samples()
        position = plan.reached_here(samples) if samples else plan.begin
        return write_state(self.options.in_world(), Batching(1), position)

    def _plan_of_samples(self) -> Plan:
        """Return the plan of the latest iteration, or of the next one, in batches of one sample."""
        return plan_of(self.options.in_world(), Batching(1), self.begun)

    def load_state_dict(
        self,
        state: object,
        batching: Batching = Batching(1),  # noqa: B008  # frozen
    ) -> None:
        """Resume the next pass from a state.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset, order or selection, or is not a state.
        NoDataAvailableError
            If too few rows are left for this world.
        """
        here = self.options.in_world()
        position = read_state(state, here, batching)
        if position.consumed:
            here.record_pass(position.pass_epoch)
        is_begun = position.consumed > 0 or position.first_epoch is not None
        self.epochs.resume_at(position, is_begun=is_begun)
        self._last = None
