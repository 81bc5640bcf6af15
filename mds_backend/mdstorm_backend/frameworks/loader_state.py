"""Where a loader stands, and the state by which another one continues there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.read.row_stream import Position

if TYPE_CHECKING:
    from mdstorm_backend.frameworks.torch_dataset import StreamingDataset

__all__ = ["LoaderState"]


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
    """

    first_epoch: int = 0
    position: Position = field(default_factory=Position)
    resumes: bool = False
    _started: bool = False

    def begin(self) -> Position:
        """Begin an iteration and return where it starts."""
        if not self.resumes and self._started:
            self.first_epoch = self.position.epoch + 1
            self.position = Position(epoch=self.first_epoch)
        self.resumes, self._started = False, True
        return self.position

    def finish(self, num_epochs: int | None) -> None:
        """Note that the pass came to its end."""
        if num_epochs is not None:
            last = self.first_epoch + num_epochs - 1
            self.position = replace(self.position, epoch=last)

    def to_dict(self, source: StreamingDataset, batch_size: int) -> dict[str, Any]:
        """Return the state of a checkpoint."""
        order = source.order
        return {
            "epoch": self.position.epoch,
            "sample_in_epoch": self.position.row * order.world_size,
            "num_canonical_nodes": order.world_size,
            "shuffle_seed": order.seed,
            "initial_physical_nodes": order.world_size,
            "mdstorm": {
                "order": "exact",
                "row": self.position.row,
                "batches": self.position.batches,
                "batch_size": batch_size,
                "first_epoch": self.first_epoch,
                "started": self._started,
                "world_size": order.world_size,
                "shuffle": _shuffle(order),
                "dataset": source.dataset.fingerprint,
            },
        }

    @classmethod
    def from_dict(
        cls,
        state: dict[str, Any],
        source: StreamingDataset,
        batch_size: int,
        *,
        drop_last: bool = False,
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
            If it belongs to another dataset, or to another way of reading it.
        """
        ours = state.get("mdstorm")
        if not isinstance(ours, dict) or ours.get("order") != "exact":
            raise StateMismatchError(
                "the state was not taken from a loader with the order 'exact', so it does not say "
                "which rows this loader has to skip. Load it where it was taken"
            )
        here = {
            "dataset": source.dataset.fingerprint,
            "world_size": source.order.world_size,
            "shuffle": _shuffle(source.order),
        }
        wrong = [f"{k}: {ours[k]!r} there, {v!r} here" for k, v in here.items() if ours[k] != v]
        if wrong:
            raise StateMismatchError(
                f"the state was taken from another reading of {source.dataset.url} or from another "
                f"dataset ({'; '.join(wrong)}). Make an equal loader over the same dataset"
            )
        row = int(ours["row"])
        epoch, first_epoch = int(state["epoch"]), int(ours["first_epoch"])
        batches = int(ours["batches"])
        if ours["batch_size"] != batch_size:
            reader = source.options.reader(batch_size, drop_last=drop_last)
            rows = (epoch - first_epoch) * reader.rows_per_epoch + row
            batches = reader.batches_before(rows)
        result = cls(first_epoch, Position(epoch, row, batches))
        result.resumes = result._started = bool(ours["started"])
        return replace(source.order, seed=state["shuffle_seed"]), result


def _shuffle(order: ExactOrder) -> list[Any]:
    return [order.shuffle_shards, order.shuffle_rows, order.window]
