"""Protocols of an order for loaders: how a dataset is read, its passes, and states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.loaders.legs import Batching, Leg
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.world import World


@dataclass(frozen=True)
class Worker:
    """One of the processes that share the samples of a dataset without a loader of ours.

    Attributes
    ----------
    number, count : int
        Which of how many.
    group : int
        The same for those that belong together, and for no others.
    world : World or None
        The world as the process saw it that has started them; None if it did not say, or is this.
    """

    number: int = 0
    count: int = 1
    group: int | None = None
    world: World | None = None


class Pass(Protocol):
    """A pass over the data by a loader: where it stands.

    Attributes
    ----------
    rows : int
        Samples delivered since the pass, or an epoch that no batch spans, began.
    """

    rows: int

    @property
    def order(self) -> ExactOrder | ElasticShare:
        """The order with the share of this pass, or before it the one that it would have."""

    def following(self) -> Pass:
        """Return what the next iteration goes through: the rest of this pass, or the next one."""

    def num_batches(self) -> int:
        """Batches of a whole pass, or of the rest of one that was begun in another world.

        Raises
        ------
        TypeError
            If nobody knows.
        """

    def legs(self) -> Iterator[Leg]:
        """Yield what is to be read, one after the other."""

    def advance(self, mark: Any, size: int) -> None:
        """Note that a batch of `size` rows was delivered; `mark` is the block's for it."""

    def finish(self) -> None:
        """Note that the pass came to its end."""

    def copied(self) -> Pass:
        """Return a copy that stands at the same place, and goes its own way."""

    def to_continue(self) -> Pass:
        """Return the pass for a copy of the loader, which goes on from here."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a checkpoint."""


class Reading(Protocol):
    """How a dataset is read in one order. It pickles.

    A share that follows the world is asked for with every number, and once by a pass that begins,
    which keeps it to its end.
    """

    options: ReaderOptions

    @property
    def next_epoch(self) -> int:
        """Number of the epoch that is begun next."""

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None: ...

    @property
    def epoch_size(self) -> int:
        """Samples of an epoch over the whole world."""

    @property
    def rows_per_epoch(self) -> int:
        """Samples of this rank in one epoch."""

    def num_batches(self, batching: Batching) -> int:
        """Batches of a whole pass.

        Raises
        ------
        TypeError
            If nobody knows.
        """

    def first_pass(self, batching: Batching) -> Pass:
        """Return the pass of a loader that has not begun any."""

    def resumed(self, state: object, batching: Batching) -> tuple[Reading, Pass]:
        """Return how to read, and the pass to go on with, from where a state was taken.

        Raises
        ------
        StateMismatchError
            If it belongs to something else, or is not a state.
        """

    def leg(self, token: Any, batching: Batching) -> Leg:
        """Return the stretch of a pass with that token."""

    def own_legs(self, batch_size: int | None, worker: Worker) -> Iterator[Leg]:
        """Begin an iteration over samples, without a loader of ours: part `worker` of it."""

    def state_of_leg(self, leg: Any) -> dict[str, Any]:
        """Return the state of a process that reads a part of `leg` from its beginning."""

    def legs_of_state(
        self, state: Mapping[str, Any], batch_size: int | None, worker: Worker
    ) -> Iterator[Leg]:
        """Go on where `state_of_leg` was called, as `own_legs` begins.

        Raises
        ------
        StateMismatchError
            If it belongs to something else, or is not a state.
        """

    def skip_pass(self) -> None:
        """Note that workers with copies of this went through a pass."""

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        """Return the state after so many samples of an epoch, over the whole world."""

    def state_of_samples(self, num_samples: int) -> dict[str, Any]:
        """Return the state of the iteration begun last; over samples, after so many of this rank.

        Raises
        ------
        StateMismatchError
            If nobody knows.
        """

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a state was taken."""
