"""Passes of a loader in the exact order: where they begin, and their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from mdstorm_backend.base.user_warnings import warn_user
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.exact_state import (
    ExactProgress,
    counts_batches,
    only_own_state,
    with_history,
)
from mdstorm_backend.loaders.legs import Batching, ExactLeg, Leg, batch_reader
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.state_values import check_epoch
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.shares import Place
from mdstorm_backend.order.world import World
from mdstorm_backend.read.row_stream import Position


class ExactSchedule:
    """Where the passes over a dataset in the exact order begin, and which of them was begun last.

    Parameters
    ----------
    options : ReaderOptions
        What to read.
    next_epoch : int, optional
        Epoch with which the next iteration over samples begins, or the first pass of a loader; by
        default the first one of the options.

    Attributes
    ----------
    times_set : int
        How often somebody has said where to begin; passes made before are over then.
    resumes : mapping or None
        A state with which the next iteration goes on.
    """

    def __init__(self, options: ReaderOptions, next_epoch: int | None = None) -> None:
        self.options = options
        self._next_epoch = options.first_epoch if next_epoch is None else next_epoch
        self.times_set = 0
        self.resumes: Mapping[str, Any] | None = None
        #: Epochs in which a loop may be that goes on with it.
        self._resumed_epochs = range(0)
        #: The iteration that was begun or loaded last, and whether it is one over samples.
        self.last: ExactPass | None = None
        self._is_own = False

    @property
    def next_epoch(self) -> int:
        """Epoch with which the next iteration over samples begins, and of loaders if it is set."""
        return self._next_epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        check_epoch(epoch)
        if epoch not in self._resumed_epochs:
            self.resumes = None  # which stays if a loop names the epoch that it goes on with
        self._next_epoch = int(epoch)
        self.times_set += 1

    def num_batches(self, batching: Batching) -> int:
        """Batches of a whole pass."""
        return len(batch_reader(self.options.in_world(), batching))

    def first_pass(self, batching: Batching, world: World | None = None) -> ExactPass:
        """Return the pass of a loader that has not begun any."""
        if self.resumes is None:
            return ExactPass(self, batching, ExactProgress.before(self.next_epoch))
        here = self.options.in_world(world)
        progress = ExactProgress.from_dict(self.resumes, here, batching)[1]
        return ExactPass(self, batching, progress, here)

    def note(self, begun: ExactPass, *, is_own: bool = False) -> None:
        """Note which iteration was begun."""
        self.last, self._is_own, self.resumes = begun, is_own, None


@dataclass(eq=False)
class ExactPass:
    """A pass of a loader in the exact order.

    Parameters
    ----------
    schedule : ExactSchedule
        What it is a pass of.
    batching : Batching
        How batches are made.
    progress : ExactProgress
        Where it stands.
    here : ReaderOptions, optional
        With the share of the rows of which that tells; None before the pass begins.
    is_begun : bool
        Whether that share stays to its end; otherwise it is this process's when the pass begins.
    """

    schedule: ExactSchedule
    batching: Batching
    progress: ExactProgress
    here: ReaderOptions | None = None
    is_begun: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._is_endless = self.schedule.options.num_epochs is None
        self._times_set = self.schedule.times_set
        #: Where this iteration begins.
        self._start = self.progress.position
        self.rows = 0

    @property
    def first_epoch(self) -> int:
        """The epoch with which the pass began."""
        return self.progress.first_epoch

    @property
    def order(self) -> ExactOrder:
        """The order with the share of this pass, or before it the one that it would have."""
        return self._present()[0].exact_order

    def of_first_rank(self) -> ExactPass:
        """Return the pass of rank 0 after as many batches, where that follows from this one's."""
        here, progress = self._present()
        if not progress.started or not counts_batches(here, self.batching):
            return self
        history = progress.whole_history(here, self.batching)
        place = history.places(len(here.dataset))[0]
        return ExactPass(
            self.schedule,
            self.batching,
            replace(progress, position=Position(*place, progress.position.batches)),
            replace(here, order=replace(here.exact_order, rank=0)),
            is_begun=True,
        )

    def following(self, world: World | None = None) -> ExactPass:
        """Return what the next iteration goes through: where the dataset was told to, if it was."""
        schedule, progress = self.schedule, self.progress
        if self._times_set != schedule.times_set and not (
            schedule.resumes is None and progress.resumes and self._is_in(schedule.next_epoch)
        ):
            return schedule.first_pass(self.batching, world).following(world)
        here = schedule.options.in_world(world)
        progress = replace(self._progress_in(here))
        progress.begin()
        here.note_pass(progress.first_epoch)
        here = with_history(here, progress.history)
        following = ExactPass(schedule, self.batching, progress, here, is_begun=True)
        schedule.note(following)
        return following

    def _is_in(self, epoch: int) -> bool:
        """Whether a loop that goes on with this pass may name this epoch: on all ranks alike."""
        here, progress = self._present()
        return epoch in progress.epochs_under_way(here, self.batching)

    def _progress_in(self, here: ReaderOptions) -> ExactProgress:
        """Return where the pass goes on in the share of `here`."""
        progress, before = self.progress, self.here
        if not progress.resumes or before is None:
            return progress
        old, new = before.exact_order, here.exact_order
        if (old.rank, old.world_size) == (new.rank, new.world_size):
            return progress
        if not counts_batches(here, self.batching):
            raise only_own_state((old.rank, old.world_size), new, here, self.batching)
        history = progress.whole_history(before, self.batching)
        return progress.in_share(history, here, self.batching)

    def _present(self) -> tuple[ReaderOptions, ExactProgress]:
        """Return how it is read and where it stands: in the world as it is now, until it begins."""
        if self.is_begun and self.here is not None:
            return self.here, self.progress
        here = self.schedule.options.in_world()
        progress = self._progress_in(here)
        return with_history(here, progress.history), progress

    def num_batches(self) -> int:
        """Batches of a whole pass, or of the rest of one that was begun in another world."""
        here, progress = self._present()
        if progress.finished or progress.history is None:
            return self.schedule.num_batches(self.batching)
        return len(batch_reader(here, self.batching))

    def legs(self) -> Iterator[Leg]:
        """Yield the one stretch that there is: batches span epochs."""
        here, progress = self._present()
        yield ExactLeg(here, self.batching, progress.position, progress.first_epoch)

    def advance(self, mark: Position, size: int) -> None:
        """Note that a batch was delivered."""
        self.progress.position = mark
        if self._is_endless and mark.epoch > self.progress.first_epoch:
            options = self.schedule.options
            options.notice.give(options.dataset.url)
        self.rows += size

    def finish(self) -> None:
        """Note that the pass came to its end."""
        self.progress.finish(self.schedule.options.num_epochs)

    def copied(self) -> ExactPass:
        """Return a copy that stands at the same place."""
        other = copy(self)
        other.progress = replace(self.progress)
        return other

    def to_continue(self) -> ExactPass:
        """Return the pass for a copy of the loader, which goes on from here."""
        progress, here = self.progress, None
        if progress.started:
            here, progress = self._present()
            progress = progress.to_continue(here, self.batching)
        return ExactPass(self.schedule, self.batching, replace(progress), here)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a checkpoint."""
        here, progress = self._present()
        return progress.to_dict(here, self.batching)

    def state_after(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        """Return the state after so many samples over the whole world.

        They count from the beginning of the pass, or of this iteration. Where all ranks have just
        delivered so many, the place of this one counts, which also knows of short batches.
        """
        here, progress = self._present()
        at_start = self._delivered_by_all(self._start)
        since_start = num_samples - (at_start if from_beginning else 0)
        is_here = since_start == self._delivered_by_all(progress.position) - at_start
        if is_here or (progress.finished and not num_samples):
            return self.state_dict()
        return self.state_after_rows(since_start // here.exact_order.world_size)

    def _delivered_by_all(self, position: Position) -> int:
        """Samples of the pass that all ranks have had when each has had as many batches."""
        here, _ = self._present()
        self._check_countable(here)
        reader = batch_reader(here, self.batching)
        remaining = reader.remaining(self.first_epoch)
        begun = sum(remaining.num_rows - epoch.rows for epoch in remaining.begun)
        before = (remaining.first_epoch - self.first_epoch) * remaining.num_rows + begun
        return before + sum(remaining.delivered(reader.segment(position.batches)))

    def state_after_rows(self, rows: int) -> dict[str, Any]:
        """Return the state after so many rows of this rank since this iteration began."""
        here, progress = self._present()
        self._check_countable(here)
        order, by_row = here.exact_order, Batching(1)
        reader = batch_reader(here, by_row)
        share = reader.remaining(self.first_epoch).rows_of(order.rank, order.split)
        rows = max(rows + share.before(Place(*self._start[:2])), 0)
        batches = rows
        if share.total is not None and rows >= share.total:
            rows, batches = share.total, len(reader)
        place = Position(*share.place(rows), batches)
        started = progress.started and (rows > 0 or progress.history is not None)
        return replace(progress, position=place, started=started).to_dict(here, by_row)

    def warn_of_other_place(self, state: Mapping[str, Any]) -> None:
        """Warn if another rank's state of this very pass says that it has had other batches."""
        here, progress = self._present()
        is_under_way = progress.started and not (progress.finished or progress.resumes)
        if not is_under_way or not counts_batches(here, self.batching):
            return
        mine, theirs = progress.to_dict(here, self.batching)["mdstorm"], state["mdstorm"]
        same = ("first_epoch", "world_size", "batch_size")
        if theirs.get("rank") in (None, mine["rank"]) or any(mine[k] != theirs[k] for k in same):
            return
        if theirs["batches"] != mine["batches"] and not theirs["finished"]:
            warn_user(
                f"rank {mine['rank']} has had {mine['batches']} batches of this pass over "
                f"{here.dataset.url}, and resumes from a state of rank {theirs['rank']} after "
                f"{theirs['batches']} batches: unless all ranks go back to it, rows are lost or "
                "repeated. Take states when all ranks have had the same number of batches"
            )

    def _check_countable(self, here: ReaderOptions) -> None:
        if here.transform is not None:
            raise StateMismatchError(
                "a transform may drop rows, so samples do not say how far the dataset is: take "
                "the state from a StreamingDataLoader over it, loader.state_dict()"
            )
