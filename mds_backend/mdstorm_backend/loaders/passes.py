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

Each `Pass` of a loader has an `Iteration`, which decides when the pass moves the beginning of the
next one: a *peek*, an iteration that was left after one batch, does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders.agreement import Beginning, Numbering, begin_pass
from mdstorm_backend.loaders.epochs import Epochs, Iteration, Worker
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
        if options.tried is not None:
            self.epochs.tried = options.tried
        #: The pass of a loader that was begun last; None for an iteration over samples.
        self.last: Pass | None = None
        #: Numbers the iterations over samples, to compare them with those of other ranks.
        self._numbering = Numbering()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "last": None, "_numbering": Numbering()}

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
        self,
        batching: Batching,
        here: ReaderOptions,
        begun: Place,
        following: Callable[[Place, int], Place],
    ) -> Iterator[Rest]:
        """Yield each stretch of a pass that is read without interruption.

        A stretch is the whole pass, or one epoch where no batch spans two.

        Parameters
        ----------
        batching, here
            How the pass is read.
        begun : Place
            Where the pass begins or resumes.
        following : callable
            Returns where the epoch after that of a place begins, for a pass that began with the
            given epoch.
        """
        num_epochs, first = here.num_epochs, begun.pass_epoch
        while True:
            rest = Rest(here, batching, begun, ahead=self.epochs.ahead)
            sampler, place = rest.sampler, rest.sampler.begun(begun)
            rest = replace(rest, place=place)
            is_last = sampler.spans_epochs or here.is_last_epoch(place)
            # A pass that ends may have no batches from its beginning, if all of them are dropped.
            has_end = num_epochs is not None and sampler.num_samples > 0
            if sampler.has_batches(place) or (has_end and not place.consumed):
                self.epochs.note_begun(place)
                yield rest
                if is_last:
                    return
            elif not place.consumed:
                warn_no_data(here.dataset.url, dropped=sampler.num_samples > 0)
                return
            elif is_last:
                first = place.epoch + 1  # the pass was over when the state was taken
            begun = following(begun, first)
            if here.tells_of_endless and num_epochs is None:
                tell_of_endless(here.dataset.url)

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

        def begin(first: int | None) -> Place:
            begun = self.epochs.begin(joining, first)
            if first is None:
                here.note_pass(begun.pass_epoch)
            return begun

        def following(begun: Place, first: int) -> Place:
            return begin(first if first <= begun.epoch else None)

        self.last = None
        for number, rest in enumerate(self.rests(batching, here, begin(None), following)):
            if joining is None and number == 0:
                compared = begin_pass(rest, self._numbering)
                if compared is not None:
                    compared.offer()
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
        begun, sampler = self._begun()
        if not sampler.has_numbers:
            return self.state_of_samples(num_samples)
        before = 0 if from_beginning else sampler.position(begun)
        position, last = before + num_samples, self.last
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
        self.last = None


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
        #: Where the pass began, and whether it has counted; None before it begins.
        self.iteration: Iteration | None = None
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

    def following(
        self, numbering: Numbering, *, may_peek: bool = False, is_first: bool = False
    ) -> Pass:
        """Begin the next iteration: the remainder of a pass, or the next pass.

        See `Epochs.open` for the arguments.
        """
        here = self.schedule.options.in_world()
        following = Pass(self.schedule, self.batching, self.goes_on, here, numbering=numbering)
        following.iteration = self.schedule.epochs.open(
            here.note_pass, resumes=self.goes_on, may_peek=may_peek, is_first=is_first
        )
        self.schedule.last = following
        return following

    def count(self) -> None:
        """Let the iteration count: the next one begins after it, and ranks compare it."""
        assert self.iteration is not None
        self.iteration.count()
        self.goes_on = None
        if self.beginning is not None:
            self.beginning.offer()

    def take(self, batches: int) -> None:
        """Let the iteration count if the user has taken enough batches."""
        assert self.iteration is not None
        if batches >= self.iteration.batches:
            self.count()

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
        assert self.iteration is not None
        begun = self.iteration.start
        for rest in self.schedule.rests(self.batching, self._present, begun, self._next_epoch):
            if self._rest is None:
                self.beginning = begin_pass(rest, self.numbering)
            self._rest, self.rows, self.least_rows = rest, 0, rest.least_rows
            self._position = rest.sampler.position(rest.place)
            self._milestone = rest.sampler.milestone(rest.place, self._position)
            yield replace(rest, recorder=recorder)

    def _next_epoch(self, begun: Place, first_epoch: int) -> Place:
        """Return the place of the next epoch, of the pass that began with `first_epoch`."""
        assert self.iteration is not None
        place = replace(begun.beginning_of(begun.epoch + 1), first_epoch=first_epoch)
        if first_epoch > begun.epoch:
            self.iteration.start = place
        elif self._rest is not None:
            self.count()
        self.iteration.reach(place.epoch)
        self.schedule.epochs.note_start(place)
        return place

    def advance(self, mark: Any, size: int) -> bool:
        """Advance the position by a batch of `size` rows, whose block gave it `mark`.

        Return whether the batch is the first one with samples of another epoch.
        """
        assert self._rest is not None
        position = self._rest.sampler.advanced(self._position, mark)
        self._position = position
        self.rows += mark if isinstance(mark, int) else size
        if reached := bool(position >= self._milestone):
            self._reach(self._rest)
        if self.beginning is not None:
            self.beginning.count()
        return reached

    def _reach(self, rest: Rest) -> None:
        sampler = rest.sampler
        self._milestone = sampler.milestone(rest.place, self._position)
        if not sampler.spans_epochs:
            if self.batching.num_workers:  # without workers, the reader has prepared it
                sampler.prepare(rest.place)
            return
        self._note_epoch(rest)
        if rest.options.tells_of_endless and rest.options.num_epochs is None:
            tell_of_endless(rest.options.dataset.url)

    def _note_epoch(self, rest: Rest) -> None:
        assert self.iteration is not None
        self.iteration.reach(rest.sampler.place(rest.place, self._position).epoch)

    def finish(self) -> None:
        """Record that the pass has reached its end."""
        self.count()
        if self._rest is None:
            return
        if self.beginning is not None:
            self.beginning.end()
        sampler = self._rest.sampler
        self._is_over = self._rest.options.num_epochs is not None
        if sampler.spans_epochs and self._is_over:
            self._position = sampler.end(self._rest.place)
            self._note_epoch(self._rest)

    def to_continue(self) -> Pass:
        """Return a pass for a copy of the loader, which resumes from this place.

        If the iteration has not counted, the copy begins where the iteration began.
        """
        if self.iteration is not None and not self.iteration.has_counted:
            return Pass(self.schedule, self.batching, self.goes_on)
        place = self.place
        if place is not None and place.is_end and not place.consumed:
            place = place.beginning_of(place.epoch + 1)
        return Pass(self.schedule, self.batching, place)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a checkpoint."""
        place = self.place
        if place is None:
            place = self.schedule.epochs.begun or self.schedule.epochs.next_place
        return write_state(self._present, self.batching, place)
