"""The position of a loader in the exact order, and its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.history_state import history_dict, read_history, refuse_other_shares
from mdstorm_backend.loaders.legs import Batching, batch_reader
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.state_values import (
    VERSION,
    check_reading,
    check_version,
    damaged,
    flag,
    number,
    other_seed,
    reading_values,
    state_mapping,
)
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.history import History
from mdstorm_backend.order.shares import ceil_div
from mdstorm_backend.read.row_stream import Position


def with_history(options: ReaderOptions, history: History | None) -> ReaderOptions:
    """Return the options for a pass with such a history."""
    order = options.exact_order
    if order.history is history:
        return options
    return replace(options, order=replace(order, history=history))


@dataclass
class ExactProgress:
    """Progress through passes over a dataset.

    Attributes
    ----------
    first_epoch : int
        Epoch with which the current pass began. Epochs are counted over all passes, so that each
        one has permutations of its own.
    position : Position
        What the current pass has delivered; in its present world, if that is not the first one.
    resumes : bool
        Whether the next iteration continues the current pass rather than begin one.
    started, finished : bool
        Whether a pass was begun, and whether it came to its end.
    history : History or None
        What the current pass has delivered in other worlds, or with other batch sizes.
    """

    first_epoch: int = 0
    position: Position = field(default_factory=Position)
    resumes: bool = False
    started: bool = False
    finished: bool = False
    history: History | None = None

    @classmethod
    def before(cls, epoch: int) -> ExactProgress:
        """Return the state of a loader whose first pass begins with that epoch."""
        return cls(first_epoch=epoch, position=Position(epoch=epoch))

    def begin(self) -> Position:
        """Begin an iteration and return where it starts."""
        if self.started and not self.resumes:
            self.first_epoch = self.position.epoch + 1
            self.position, self.history = Position(epoch=self.first_epoch), None
        self.resumes, self.started, self.finished = False, True, False
        return self.position

    def finish(self, num_epochs: int | None) -> None:
        """Note that the pass came to its end."""
        if num_epochs is not None:
            last = self.first_epoch + num_epochs - 1
            self.position = self.position._replace(epoch=last)
            self.finished = True

    def to_continue(self, options: ReaderOptions, batching: Batching) -> ExactProgress:
        """Return the state of a loader that goes on from here: within the pass, or after its end.

        A pass whose last batch was delivered is at its end, though nobody has asked for more yet.
        """
        result = replace(self)
        reader = batch_reader(with_history(options, self.history), batching)
        if self.started and reader.is_over(self.position, self.first_epoch):
            result.finish(reader.num_epochs)
        result.resumes = result.started and not result.finished
        return result

    def whole_history(self, options: ReaderOptions, batching: Batching) -> History:
        """Return what the pass has delivered from its beginning on."""
        num_epochs = options.num_epochs
        stop_epoch = None if num_epochs is None else self.first_epoch + num_epochs
        before = self.history or History(self.first_epoch, stop_epoch)
        reader = batch_reader(with_history(options, self.history), batching)
        return before.with_segment(reader.segment(self.position.batches), len(options.dataset))

    def epochs_under_way(self, options: ReaderOptions, batching: Batching) -> range:
        """Return the epochs in which a loop may be that goes on with this pass, on any rank."""
        if options.num_epochs is not None:
            return range(self.first_epoch, self.first_epoch + options.num_epochs)
        epochs = [self.position.epoch]
        if counts_batches(options, batching):
            history = self.whole_history(options, batching)
            epochs = [place.epoch for place in history.places(len(options.dataset))]
        return range(min(epochs), max(epochs) + 1)

    def in_share(
        self, history: History, options: ReaderOptions, batching: Batching
    ) -> ExactProgress:
        """Return the same progress for the share of `options`, whosever it was.

        Parameters
        ----------
        history : History
            What was delivered, from the beginning of the pass on.
        options : ReaderOptions
            How to go on reading.
        batching : Batching
            How batches are made from now on.

        Raises
        ------
        NoDataAvailableError
            If too few rows are left for this world.
        """
        order, num_rows = options.exact_order, len(options.dataset)
        here = batch_reader(with_history(options, None), batching).segment(0)
        last, before = history.segments[-1], history.without_last()
        if last.is_like(here):
            place = history.places(num_rows)[order.rank]
            position = Position(place.epoch, place.row, last.batches)
        else:
            before = history if last.batches else before
            position = Position(before.remaining(num_rows).first_epoch)
        kept = before if before.segments or before.rows_left else None
        return replace(self, history=kept, position=position).to_continue(options, batching)

    def to_dict(self, options: ReaderOptions, batching: Batching) -> dict[str, Any]:
        """Return the state of a checkpoint."""
        order, state = options.exact_order, self.to_continue(options, batching)
        counts = counts_batches(options, batching)
        history = state.whole_history(options, batching) if counts else None
        epoch, row = state.position[:2]
        return {
            "epoch": epoch,
            "sample_in_epoch": (
                row * order.world_size
                if history is None
                else history.delivered_of(epoch, len(options.dataset))
            ),
            "num_canonical_nodes": order.world_size,
            "shuffle_seed": order.seed,
            "initial_physical_nodes": order.world_size,
            "mdstorm": {
                "version": VERSION,
                "order": "exact",
                "row": row,
                "batches": state.position.batches,
                "batch_size": batching.batch_size,
                "first_epoch": state.first_epoch,
                "started": state.started,
                "finished": state.finished,
                "rank": order.rank,
                "world_size": order.world_size,
                "history": history_dict(history),
                **reading_values(options),
            },
        }

    @classmethod
    def from_dict(
        cls, state: object, options: ReaderOptions, batching: Batching
    ) -> tuple[ExactOrder, ExactProgress]:
        """Read what `to_dict` wrote.

        Returns
        -------
        order : ExactOrder
            The order of `options` with the seed of the state, and its history.
        progress : ExactProgress
            Where to continue.

        Raises
        ------
        StateMismatchError
            If it belongs to another dataset, or to another way of reading it, or is none at all.
        NoDataAvailableError
            If too few rows are left for this world.
        """
        state = state_mapping(state)
        ours = state.get("mdstorm")
        if not isinstance(ours, Mapping) or ours.get("order") != "exact":
            raise StateMismatchError(
                "the state was not taken from a loader with the order 'exact', so it does not "
                "say which rows this loader has to skip. Load it where that order is used"
            )
        check_version(ours)
        check_reading(ours, options)
        seed, epoch = number(state, "shuffle_seed", 1), number(state, "epoch")
        position = Position(epoch, number(ours, "row"), number(ours, "batches"))
        result = cls(
            number(ours, "first_epoch"),
            position,
            started=flag(ours, "started"),
            finished=flag(ours, "finished"),
        )
        number(ours, "batch_size", 1)
        number(ours, "world_size", 1)
        result._check_position(options)
        if result.started and not result.finished:
            result = result._going_on(state, ours, options, batching)
            here = options.exact_order
            is_shuffled = here.shuffles or here.shuffle_shards
            if is_shuffled and (wrong := other_seed(ours, seed, here.seed, here.rank)):
                raise StateMismatchError(wrong)
        order = replace(options.exact_order, seed=seed, history=result.history)
        return order, result

    def _check_position(self, options: ReaderOptions) -> None:
        """Refuse a place that no loader of this kind comes to."""
        epochs, num_epochs = self.position.epoch - self.first_epoch, options.num_epochs
        if epochs < 0 or (num_epochs is not None and epochs >= num_epochs):
            raise damaged(f"it stands in epoch {epochs} of a pass of {num_epochs}")
        num_rows = len(options.dataset)
        if options.transform is None and self.position.row > num_rows:
            raise damaged(f"it stands at row {self.position.row} of an epoch of {num_rows} rows")

    def _going_on(
        self,
        state: Mapping[str, Any],
        ours: Mapping[str, Any],
        options: ReaderOptions,
        batching: Batching,
    ) -> ExactProgress:
        """Return the same in this process's share of the rows."""
        if not counts_batches(options, batching):
            result = self._of_rank(ours, options, batching)
            if ours.get("history") is not None:
                refuse_other_shares(read_history(state, ours, options))
            return result
        return self.in_share(read_history(state, ours, options), options, batching)

    def _of_rank(
        self, ours: Mapping[str, Any], options: ReaderOptions, batching: Batching
    ) -> ExactProgress:
        """Go on where only the rank itself knows which rows it has had.

        In a single epoch all know it of each other, as long as their batches are full: rows are
        counted after the transform, and each rank has had as many.
        """
        order, batch_size = options.exact_order, number(ours, "batch_size", 1)
        there = ours.get("rank", order.rank), ours.get("world_size")
        is_full = self.position.row == self.position.batches * batch_size
        knows_all = options.num_epochs == 1 and is_full and not batching.by_shard
        if there[1] != order.world_size or not (there[0] == order.rank or knows_all):
            raise only_own_state(there, order, options, batching)
        result = replace(self)
        if batch_size != batching.batch_size:
            rows = self.position.row  # of the epoch: how many were in the others, nobody knows
            result.position = self.position._replace(batches=ceil_div(rows, batching.batch_size))
        return result.to_continue(options, batching)


def counts_batches(options: ReaderOptions, batching: Batching) -> bool:
    """Whether the number of batches says which rows a rank has had."""
    return options.transform is None and not batching.by_shard


def only_own_state(
    there: tuple[Any, Any], order: ExactOrder, options: ReaderOptions, batching: Batching
) -> StateMismatchError:
    """Return the error for a state of another rank where only that one knows what it has read."""
    reason = (
        "a transform or predicate may drop rows"
        if options.transform is not None
        else "batches are row groups, of which ranks have different numbers"
    )
    return StateMismatchError(
        f"the state was taken by rank {there[0]} of {there[1]}, and this is rank {order.rank} of "
        f"{order.world_size}. Since {reason}, a state says nothing about other ranks: save the "
        "state of each rank, and load it on the same rank of as many ranks"
    )
