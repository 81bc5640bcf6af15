"""The position of a loader in the exact order, and its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.state_values import check_equal, damaged, flag, number, state_mapping
from mdstorm_backend.order.exact import ExactOrder, ceil_div
from mdstorm_backend.read.row_stream import Position

if TYPE_CHECKING:
    from mdstorm_backend.read.batch_reader import BatchReader


@dataclass
class LoaderState:
    """Progress through passes over a dataset.

    Attributes
    ----------
    first_epoch : int
        Epoch with which the current pass began. Epochs are counted over all passes, so that each
        one has permutations of its own.
    position : Position
        What the current pass has delivered.
    resumes : bool
        Whether the next iteration continues the current pass rather than begin one.
    started, finished : bool
        Whether a pass was begun, and whether it came to its end.
    """

    first_epoch: int = 0
    position: Position = field(default_factory=Position)
    resumes: bool = False
    started: bool = False
    finished: bool = False

    @classmethod
    def before(cls, epoch: int) -> LoaderState:
        """Return the state of a loader whose first pass begins with that epoch."""
        return cls(first_epoch=epoch, position=Position(epoch=epoch))

    def begin(self) -> Position:
        """Begin an iteration and return where it starts."""
        if self.started and not self.resumes:
            self.first_epoch = self.position.epoch + 1
            self.position = Position(epoch=self.first_epoch)
        self.resumes, self.started, self.finished = False, True, False
        return self.position

    def finish(self, num_epochs: int | None) -> None:
        """Note that the pass came to its end."""
        if num_epochs is not None:
            last = self.first_epoch + num_epochs - 1
            self.position = self.position._replace(epoch=last)
            self.finished = True

    def to_continue(self, reader: BatchReader) -> LoaderState:
        """Return the state of a loader that goes on from here: within the pass, or after its end.

        A pass whose last batch was delivered is at its end, though nobody has asked for more yet.
        """
        result = replace(self)
        if self.started and reader.is_over(self.position, self.first_epoch):
            result.finish(reader.num_epochs)
        result.resumes = result.started and not result.finished
        return result

    def to_dict(self, source: ReaderOptions, reader: BatchReader) -> dict[str, Any]:
        """Return the state of a checkpoint."""
        order, state = source.exact_order, self.to_continue(reader)
        return {
            "epoch": state.position.epoch,
            "sample_in_epoch": state.position.row * order.world_size,
            "num_canonical_nodes": order.world_size,
            "shuffle_seed": order.seed,
            "initial_physical_nodes": order.world_size,
            "mdstorm": {
                "order": "exact",
                "row": state.position.row,
                "batches": state.position.batches,
                "batch_size": reader.batch_size,
                "first_epoch": state.first_epoch,
                "started": state.started,
                "finished": state.finished,
                **_reading(source, reader),
            },
        }

    @classmethod
    def from_dict(
        cls, state: object, source: ReaderOptions, reader: BatchReader
    ) -> tuple[ExactOrder, LoaderState]:
        """Read what `to_dict` wrote.

        Returns
        -------
        order : ExactOrder
            The order of `source` with the seed of the state.
        loader_state : LoaderState
            Where to continue.

        Raises
        ------
        StateMismatchError
            If it belongs to another dataset, or to another way of reading it, or is none at all.
        """
        state = state_mapping(state)
        ours = state.get("mdstorm")
        if not isinstance(ours, Mapping) or ours.get("order") != "exact":
            raise StateMismatchError(
                "the state was not taken from a loader with the order 'exact', so it does not say "
                "which rows this loader has to skip. Load it where it was taken"
            )
        _check_reading(ours, source, reader)
        seed, epoch = number(state, "shuffle_seed", 1), number(state, "epoch")
        first_epoch, row = number(ours, "first_epoch"), number(ours, "row")
        batches, batch_size = number(ours, "batches"), number(ours, "batch_size", 1)
        started, finished = flag(ours, "started"), flag(ours, "finished")
        _check_position(epoch - first_epoch, row, reader)
        if reader.transform is None:
            # Another rank's share may be one row longer than this one's.
            row = min(row, reader.rows_per_epoch)
        if batch_size != reader.batch_size:
            rows = (epoch - first_epoch) * reader.rows_per_epoch + row
            batches = reader.batches_before(rows)
        result = cls(first_epoch, Position(epoch, row, batches), False, started, finished)
        return replace(source.exact_order, seed=seed), result.to_continue(reader)


def _reading(source: ReaderOptions, reader: BatchReader) -> dict[str, Any]:
    """What has to be the same where a state is taken and where it is loaded."""
    order = source.exact_order
    return {
        "world_size": order.world_size,
        "shuffle": [order.shuffle_shards, order.shuffle_rows, order.window],
        "dataset": source.dataset.fingerprint,
        "columns": list(reader.schema.names),
        "transform": reader.transform is not None,
        "num_epochs": reader.num_epochs,
    }


def _check_reading(ours: Mapping[str, Any], source: ReaderOptions, reader: BatchReader) -> None:
    here = _reading(source, reader)
    if missing := [key for key in here if key not in ours]:
        raise damaged(f"it has no {missing}")
    check_equal(ours, here, source.dataset.url)


def _check_position(epochs: int, row: int, reader: BatchReader) -> None:
    """Refuse a place that no loader of this kind comes to."""
    if epochs < 0 or (reader.num_epochs is not None and epochs >= reader.num_epochs):
        raise damaged(f"it stands in epoch {epochs} of a pass of {reader.num_epochs}")
    longest = ceil_div(len(reader.dataset), reader.order.world_size)
    if reader.transform is None and row > longest:
        raise damaged(f"it stands at row {row} of an epoch of {longest} rows")
