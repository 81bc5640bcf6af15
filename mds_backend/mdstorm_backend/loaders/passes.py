"""`Schedule`: where the passes over a dataset begin. `Pass`: one pass of a loader, and its place.

Each dataset that is read has a `Schedule`, which counts its epochs (`Epochs`) and loads states. A
loader makes a `Pass` for each iteration, in this order:

1. `Pass.following` returns the pass of the next iteration.
2. `Pass.rests` begins the pass, by `Schedule.rests`, and yields a `Rest` for each stretch that is
   read without interruption: the whole pass, or each epoch if no batch spans two.
3. `Pass.advance` is called for each batch, and moves the position. `Pass.state_dict` may be called
   at any time.
4. `Pass.finish` is called at the end.

`PassRunner` makes these calls for PyTorch loaders and readers, and `TFRuns` for TensorFlow. An
iteration over samples, as in a plain ``DataLoader``, has no `Pass`: `Schedule.own_rests` begins it,
and `Schedule.rests_of_worker` resumes it in a worker process.

A *peek* is an iteration that was left after at most one batch. Its epoch is given back if ranks
share the rows, and taken again if the state is requested afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mdstorm_backend.base import warn_user
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders.agreement import Beginning, Numbering, begin_pass
from mdstorm_backend.loaders.epochs import Epochs, Worker
from mdstorm_backend.loaders.reader_options import ReaderOptions, tell_of_endless
from mdstorm_backend.loaders.rest import Batching, Rest, sampler_of
from mdstorm_backend.loaders.state import read_state, write_state
from mdstorm_backend.order.sampler import Place, Sampler
from mdstorm_backend.read.reader import warn_no_data

#: Samples that the workers of a plain ``DataLoader`` read at a time without a batch size.
SAMPLES_AT_A_TIME = 1024


class Schedule:
    """Where the passes over a dataset begin, and which of them was begun last. It can be pickled.

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
        #: The pass of a loader that was begun last; None for an iteration over samples.
        self.last: Pass | None = None
        #: Undoes the latest call of `ReaderOptions.on_pass`.
        self._undo: Callable[[], None] | None = None
        #: The peek that was given back last, if nothing was begun or loaded since.
        self.looked: Pass | None = None
        #: Numbers the iterations over samples, to compare them with those of other ranks.
        self._numbering = Numbering()

    def __getstate__(self) -> dict[str, Any]:
        anew = {"last": None, "_undo": None, "looked": None, "_numbering": Numbering()}
        return {**self.__dict__, **anew}

    @property
    def next_epoch(self) -> int:
        """The index of the next epoch."""
        return self.epochs.next_place.epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self.epochs.set_next(epoch, self.options.num_epochs)

    def sampler(self, batching: Batching = Batching(1)) -> Sampler:  # noqa: B008  # frozen
        """Return the sampler that a pass would have if it began now."""
        return sampler_of(self.options.in_world(), batching)

    def rests(
        self, batching: Batching, here: ReaderOptions, joining: Worker | None = None
    ) -> Iterator[Rest]:
        """Begin or resume a pass, and yield each stretch that is read without interruption.

        A stretch is the whole pass, or one epoch where no batch spans two. With `joining`, the
        worker takes part in the epochs of its group.
        """
        num_epochs, first = here.num_epochs, None
        self.looked = None
        while True:
            begun = self.epochs.begin(joining, first)
            if here.tells_of_endless and num_epochs is None and first is not None:
                tell_of_endless(here.dataset.url)
            rest = Rest(here, batching, begun, ahead=self.epochs.ahead)
            sampler, place = rest.sampler, rest.sampler.begun(begun)
            rest = replace(rest, place=place)
            if first is None:
                first = place.pass_epoch
                self._undo = here.note_pass(first)
            is_last = sampler.spans_epochs or here.is_last_epoch(place)
            # A pass that ends may have no batches from its beginning, if all of them are dropped.
            has_end = num_epochs is not None and sampler.num_samples > 0
            if sampler.has_batches(place) or (has_end and not place.consumed):
                self.epochs.note_begun(place)
                yield rest
            elif not place.consumed or (is_last and sampler.ends_alone):
                _warn_no_batches(rest)
                return
            elif is_last:
                first = None  # the pass was over when the state was taken: begin the next one
                continue
            if is_last:
                return

    def give_back(self, looked: Pass) -> bool:
        """Give back the epoch of a pass that was closed after at most one batch.

        That is only done if ranks share the rows: other ranks may not have peeked, and this rank
        would be an epoch ahead of them. Return whether the epoch was given back.
        """
        is_look = looked is self.last and not looked.was_asked and looked.order.world_size > 1
        if is_look:
            self.epochs.toggle()
            if self._undo is not None:
                self._undo()
            self.last, self.looked = None, looked
        return is_look

    def take_again(self) -> None:
        """Undo `give_back`, because the state after the batch of the peek is requested."""
        if (looked := self.looked) is not None:
            self.epochs.toggle()
            if looked.place is not None:
                self._undo = self.options.note_pass(looked.place.pass_epoch)
            self.last, self.looked = looked, None

    def own_rests(self, batch_size: int | None, worker: Worker) -> Iterator[Rest]:
        """Begin an iteration over samples, without a loader of ours, and yield its stretches."""
        here, batching = self.options.in_world(worker.world), self._batching(batch_size, worker)
        sampler = sampler_of(here, batching)
        if batch_size is None and sampler.needs_batch_size:
            raise InvalidArgumentError(
                "the order of samples depends on the batches: please pass `batch_size` to the "
                "StreamingDataset, the same as to the loader"
            )
        joining = None if worker.group is None else worker
        self.last = None
        for number, rest in enumerate(self.rests(batching, here, joining)):
            if joining is None and number == 0:
                begun = begin_pass(rest, self._numbering)
                if begun is not None:
                    begun.offer()
            yield rest

    def rests_of_worker(
        self, state: Mapping[str, Any], batch_size: int | None, worker: Worker
    ) -> Iterator[Rest]:
        """Resume the iteration of a worker from a state of that worker, and yield its stretches.

        Raises
        ------
        StateMismatchError
            If the state belongs to another dataset or another way of reading, or is not a state.
        """
        here, batching = self.options.in_world(worker.world), self._batching(batch_size, worker)
        place, skipped = read_state(state, here, batching, of_worker=True)
        num_epochs = here.num_epochs
        first = place.pass_epoch
        place = replace(place, first_epoch=first)
        end = None if num_epochs is None else first + num_epochs
        self.epochs.go_on_as_worker(place, place.epoch + 1 if end is None else end, worker.number)
        here.note_pass(first)
        while end is None or place.epoch < end:
            rest = Rest(here, batching, place, skipped)
            rest = replace(rest, place=rest.sampler.begun(place))
            if rest.sampler.has_batches(rest.place):
                yield rest
            if rest.sampler.spans_epochs:
                return
            place = replace(place.beginning_of(place.epoch + 1), first_epoch=first)
            skipped = 0

    def _batching(self, batch_size: int | None, worker: Worker) -> Batching:
        default = SAMPLES_AT_A_TIME if worker.count > 1 else 1
        return Batching(batch_size or default, num_workers=worker.count)

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        """Return the state after a number of samples that all ranks together have read.

        They are counted from the beginning of the epoch, or of the pass where batches span epochs;
        without `from_beginning`, from the place where the epoch or pass was resumed.
        """
        self.take_again()
        begun, sampler = self._begun()
        if not sampler.has_numbers:
            return self.state_of_samples(num_samples)
        before = 0 if from_beginning else sampler.position(begun)
        position, last = before + num_samples, self.last
        if last is not None:
            last.was_asked = True
        if last is not None and sampler.spans_epochs and last.stands_at(position):
            return last.state_dict()
        return write_state(self.options.in_world(), Batching(1), sampler.place(begun, position))

    def state_of_samples(self, samples: int) -> dict[str, Any]:
        """Return the state of the latest iteration; over samples, after so many of this rank.

        Raises
        ------
        StateMismatchError
            If worker processes read the samples, or their number does not determine a place.
        """
        if self.epochs.num_joined:
            raise StateMismatchError(
                "the samples are read in worker processes, and this one does not know how many "
                "they have delivered: use a StreamingDataLoader and its state_dict(), or "
                "num_workers=0"
            )
        self.take_again()
        if self.last is not None:
            return self.last.state_dict()
        begun, sampler = self._begun()
        after = sampler.after_samples(begun, samples) if samples else sampler.position(begun)
        return write_state(self.options.in_world(), Batching(1), sampler.place(begun, after))

    def _begun(self) -> tuple[Place, Sampler]:
        """Return where the latest iteration began, or the next one would, and its sampler."""
        begun = self.epochs.begun or self.epochs.next_place
        return begun, sampler_of(self.options.in_world(), Batching(1), begun)

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
        place, _ = read_state(state, here, batching)
        if place.consumed:
            here.note_pass(place.pass_epoch)
        self.epochs.go_on(place, is_begun=place.consumed > 0 or place.first_epoch is not None)
        self.last = self.looked = None


def _warn_no_batches(rest: Rest) -> None:
    """Warn that there is nothing to read, and why."""
    url, epoch = rest.options.dataset.url, rest.place.epoch
    if not rest.place.consumed:
        warn_no_data(url, dropped=rest.sampler.num_samples > 0)
        return
    warn_user(
        f"what a filter leaves of {url} on this rank had ended when the state was taken, in epoch "
        f"{epoch}, so this iteration has no batches: call set_epoch({epoch + 1}) if all ranks are "
        "to begin the next epoch"
    )


@dataclass(eq=False)
class Pass:
    """One pass of a loader over the data, and its place.

    Parameters
    ----------
    schedule : Schedule
        The schedule of the dataset.
    batching : Batching
        How batches are made.
    goes_on : Place, optional
        Where the next iteration resumes, whatever the schedule has recorded since.
    here : ReaderOptions, optional
        How the pass is read, with the share of the rows that it keeps to its end.
    numbering : Numbering, optional
        Numbers the passes of the loader, to compare them with those of other ranks.
    """

    schedule: Schedule
    batching: Batching
    goes_on: Place | None = None
    here: ReaderOptions | None = None
    numbering: Numbering = field(default_factory=Numbering)

    def __post_init__(self) -> None:
        self._rest: Rest | None = None
        self._position: Any = None
        self._milestone: Any = None
        self._is_over = False
        #: Compares the pass with those of other ranks; None if it is not compared.
        self.beginning: Beginning | None = None
        #: Whether the state of the pass was requested.
        self.was_asked = False
        #: Samples delivered since the current stretch began.
        self.rows = 0
        #: Batches of the current stretch with fewer rows are not delivered.
        self.least_rows = 0

    @property
    def _present(self) -> ReaderOptions:
        """How the pass is read; before it begins, with the current share."""
        return self.here or self.schedule.options.in_world()

    @property
    def order(self) -> Any:
        """The order with the share of this pass; before it begins, with the current share."""
        return self._present.order

    @property
    def rows_left(self) -> int:
        """Samples that all ranks together had left when the stretch began, for a pass that ends."""
        assert self._rest is not None
        sampler, begun = self._rest.sampler, self._rest.place
        return int(sampler.end(begun) - sampler.position(begun))

    @property
    def place(self) -> Place | None:
        """The current place; before the pass begins, the one at which it resumes, or None."""
        rest = self._rest
        if rest is None:
            return self.goes_on
        place, is_over = rest.sampler.place(rest.place, self._position), self._is_over
        if not is_over and rest.options.num_epochs is not None:
            # The last batch may have been delivered, even if no further one was requested yet.
            is_last = rest.sampler.spans_epochs or rest.options.is_last_epoch(place)
            is_over = is_last and rest.sampler.is_over(place)
        return replace(place, end=place.consumed) if is_over else place

    def stands_at(self, position: int) -> bool:
        """Whether the pass is at a position, give or take less than one sample for each rank.

        A finished pass is also at position 0: nothing was counted since its end.
        """
        if self._rest is None:
            return False
        away: int = self._position - position
        return (self._is_over and not position) or abs(away) < self._rest.sampler.num_ranks

    def following(self, numbering: Numbering) -> Pass:
        """Return the pass of the next iteration: the remainder of a pass, or the next pass."""
        if self.goes_on is not None:
            self.schedule.epochs.go_on(self.goes_on)
        here = self.schedule.options.in_world()
        following = Pass(self.schedule, self.batching, here=here, numbering=numbering)
        self.schedule.last = following
        return following

    def num_batches(self) -> int:
        """Return the number of batches of a whole pass.

        Raises
        ------
        TypeError
            If the number is not known.
        """
        return sampler_of(self._present, self.batching).length()

    def rests(self, recorder: Recorder) -> Iterator[Rest]:
        """Begin the pass, and yield its stretches one after another, for `recorder`."""
        for rest in self.schedule.rests(self.batching, self._present):
            if self._rest is None:
                self.beginning = begin_pass(rest, self.numbering)
            self._rest, self.rows, self.least_rows = rest, 0, rest.least_rows
            self._position = rest.sampler.position(rest.place)
            self._milestone = rest.sampler.milestone(rest.place, self._position)
            yield replace(rest, recorder=recorder)

    def advance(self, mark: Any, size: int) -> None:
        """Advance the position by a batch of `size` rows, whose block gave it `mark`."""
        assert self._rest is not None
        before, position = self._position, self._rest.sampler.advanced(self._position, mark)
        self._position = position
        self.rows += mark if isinstance(mark, int) else size
        if position >= self._milestone:
            self._reach(self._rest, before)
        if self.beginning is not None:
            self.beginning.count()

    def _reach(self, rest: Rest, before: Any) -> None:
        sampler = rest.sampler
        self._milestone = sampler.milestone(rest.place, self._position)
        if not sampler.spans_epochs:
            if self.batching.num_workers:  # without workers, the reader has prepared it
                sampler.prepare(rest.place)
            return
        self._note_epoch(rest, before)
        if rest.options.tells_of_endless and rest.options.num_epochs is None:
            tell_of_endless(rest.options.dataset.url)

    def _note_epoch(self, rest: Rest, before: Any) -> None:
        epochs = [rest.sampler.place(rest.place, at).epoch for at in (before, self._position)]
        self.schedule.epochs.note_epoch(*epochs)

    def finish(self) -> None:
        """Record that the pass has reached its end."""
        if self._rest is None:
            return
        if self.beginning is not None:
            self.beginning.end()
        sampler, before = self._rest.sampler, self._position
        self._is_over = self._rest.options.num_epochs is not None
        if sampler.spans_epochs and self._is_over:
            self._position = sampler.end(self._rest.place)
            self._note_epoch(self._rest, before)

    def to_continue(self) -> Pass:
        """Return a pass for a copy of the loader, which resumes from this place."""
        place = self.place
        ends_alone = self._rest is not None and self._rest.sampler.ends_alone
        if place is not None and place.is_end and (ends_alone or not place.consumed):
            place = place.beginning_of(place.epoch + 1)
        return Pass(self.schedule, self.batching, place)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a checkpoint."""
        self.was_asked = True
        place = self.place
        if place is None:
            place = self.schedule.epochs.begun or self.schedule.epochs.next_place
        return write_state(self._present, self.batching, place)
