"""Read a dataset in the exact order: see `mdstorm_backend.order.exact`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from mdstorm_backend.loaders.exact_pass import ExactPass, ExactSchedule
from mdstorm_backend.loaders.exact_state import ExactProgress
from mdstorm_backend.loaders.legs import Batching, ExactLeg, Leg
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.reading import Worker
from mdstorm_backend.loaders.shared_record import SharedRecord
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read.row_stream import Position

#: Samples that an iteration without a loader reads at a time.
_SAMPLES_AT_A_TIME = 1024


class ExactReading(ExactSchedule):
    """How a dataset is read in the exact order: see `ExactSchedule` for its parameters."""

    #: Which workers of a plain ``DataLoader`` have gone on with a state: copies of this, each.
    _resumed_by: SharedRecord | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "last": None}

    @property
    def rows_per_epoch(self) -> int:
        """Samples of this rank in one epoch."""
        first, last = self.options.in_world().exact_order.rows(len(self.options.dataset))
        return last - first

    def resumed(self, state: object, batching: Batching) -> tuple[ExactReading, ExactPass]:
        """Return how to read, and the pass to go on with, from where a state was taken."""
        here = self.options.in_world()
        order, progress = _read_state(state, here, batching)
        if self.last is not None and isinstance(state, Mapping):
            self.last.warn_of_other_place(state)
        reading = ExactReading(self._seeded(order), self.next_epoch)
        place = ExactPass(reading, batching, progress, replace(here, order=order))
        reading.last = place  # where the dataset stands, too, until something is read
        return reading, place

    def _seeded(self, order: ExactOrder) -> ReaderOptions:
        """Return the options with the seed of a state."""
        return replace(self.options, order=replace(self.options.exact_order, seed=order.seed))

    @property
    def epoch_size(self) -> int:
        """Samples of an epoch over the whole world."""
        return len(self.options.dataset)

    def leg(self, token: tuple[Position, int, ExactOrder], batching: Batching) -> ExactLeg:
        """Return the stretch of a pass with that token."""
        start, first_epoch, order = token
        return ExactLeg(replace(self.options, order=order), batching, start, first_epoch)

    def own_legs(self, batch_size: int | None, worker: Worker) -> Iterator[Leg]:
        """Begin an iteration over samples."""
        batching = _own_batching(batch_size, worker)
        self._leave_used_state(worker)
        current = self.first_pass(batching, worker.world).following(worker.world)
        self.note(current, is_own=True)
        self._next_epoch = current.first_epoch
        self.skip_pass()
        yield from current.legs()

    def _leave_used_state(self, worker: Worker) -> None:
        """Begin the pass after that of a state if the workers of another iteration went on there.

        They were copies: this process, and those that it starts, still have the state.
        """
        if self.resumes is None or self._resumed_by is None:
            return
        with self._resumed_by.changing() as record:
            group, workers = record["group"], record["workers"]
            is_used = group is not None and (group != worker.group or worker.number in workers)
            if not is_used and worker.group is not None:
                record["group"], record["workers"] = worker.group, [*workers, worker.number]
        if is_used:
            self.resumes, self._next_epoch = None, record["epoch_after"]

    def state_of_leg(self, leg: ExactLeg) -> dict[str, Any]:
        """Return the state of a process that reads a part of `leg` from its beginning."""
        history = leg.options.exact_order.history
        progress = ExactProgress(leg.first_epoch, leg.start, started=True, history=history)
        return progress.to_dict(leg.options, leg.batching)

    def legs_of_state(
        self, state: Mapping[str, Any], batch_size: int | None, worker: Worker
    ) -> Iterator[ExactLeg]:
        """Go on where `state_of_leg` was called; at the end of a pass there is nothing to read."""
        batching, here = _own_batching(batch_size, worker), self.options.in_world(worker.world)
        order, progress = _read_state(state, here, batching)
        self._next_epoch = progress.first_epoch
        self.skip_pass()
        if not progress.finished:
            here = replace(here, order=order)
            yield ExactLeg(here, batching, progress.position, progress.first_epoch)

    def skip_pass(self) -> None:
        """Let the next iteration over samples have permutations of its own."""
        self._next_epoch += self.options.num_epochs or 1

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        """Return the state after so many samples of a pass, over the whole world."""
        current = self.last or self.first_pass(Batching(1))
        if self.options.transform is not None and self.last and not self._is_own:
            # Samples do not tell how far it is, but the loader has noted it.
            return current.state_dict()
        return current.state_after(num_samples, from_beginning)

    def state_of_samples(self, num_samples: int) -> dict[str, Any]:
        """Return the state of the iteration begun last; over samples, after so many of this rank.

        Raises
        ------
        StateMismatchError
            If a transform may have dropped rows.
        """
        current = self.last or self.first_pass(Batching(1))
        return current.state_after_rows(num_samples) if self._is_own else current.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a state was taken."""
        order, progress = _read_state(state, self.options.in_world(), Batching(1))
        self.options = self._seeded(order)
        self.resumes, self.last = state, None
        self._resumed_epochs = progress.epochs_under_way(self.options.in_world(), Batching(1))
        self._next_epoch = progress.position.epoch
        progress.begin()
        after = progress.first_epoch + (self.options.num_epochs or 1)
        self._resumed_by = SharedRecord({"group": None, "workers": [], "epoch_after": after})
        self.times_set += 1


def _read_state(
    state: object, here: ReaderOptions, batching: Batching
) -> tuple[ExactOrder, ExactProgress]:
    """Return what `ExactProgress.from_dict` does, and note the pass."""
    order, progress = ExactProgress.from_dict(state, here, batching)
    if progress.started:
        here.note_pass(progress.first_epoch)
    return order, progress


def _own_batching(batch_size: int | None, worker: Worker) -> Batching:
    return Batching(batch_size or _SAMPLES_AT_A_TIME, num_workers=worker.count)
