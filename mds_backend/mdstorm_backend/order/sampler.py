"""`Sampler`: an order as the numbers of a rank's samples, and `Place`: where a world stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from mdstorm_backend.order.chunks import Chunk
from mdstorm_backend.order.lanes import Lanes


@dataclass(frozen=True)
class Place:
    """Where a world stands in a pass, the same on all of its ranks.

    Attributes
    ----------
    epoch : int
        Number of the epoch, from 0.
    consumed : int
        Samples of the epoch that all ranks together have had. At an end, all of them.
    first_epoch : int or None
        Epoch with which the pass began; None if one is to begin here.
    lanes : tuple of Lanes
        How the epoch lies in the ``exact`` order. Empty at a beginning or an end.
    seed : int or None
        Seed of the order; None for the one of its arguments.
    num_canonical_nodes, initial_physical_nodes : int or None
        What a state says of the ``elastic`` order; None for what arguments and world say.
    end : int or None
        What `consumed` is where nothing is left of the epoch, padding included; in the ``exact``
        order, of the pass, and known at its end alone.
    row : int
        Rows of its own share of the epoch that the rank has had, where no number of samples tells.
    """

    epoch: int = 0
    consumed: int = 0
    first_epoch: int | None = None
    lanes: tuple[Lanes, ...] = ()
    seed: int | None = None
    num_canonical_nodes: int | None = None
    initial_physical_nodes: int | None = None
    end: int | None = None
    row: int = 0

    @property
    def pass_epoch(self) -> int:
        """Epoch with which the pass began, or would begin here."""
        return self.epoch if self.first_epoch is None else self.first_epoch

    @property
    def is_end(self) -> bool:
        """Whether nothing is left, as far as the place itself knows."""
        return self.end is not None and self.consumed >= self.end

    def beginning_of(self, epoch: int) -> Place:
        """Return the beginning of a pass with that epoch, in the same order."""
        return replace(self, epoch=epoch, consumed=0, first_epoch=None, lanes=(), end=None, row=0)


class Sampler(Protocol):
    """The samples of one rank: in which batches, and with which numbers. Pure; it pickles.

    A position is what advances with each batch of a pass, and opaque to others. Parts are the
    shares of worker processes.

    Attributes
    ----------
    spans_epochs : bool
        Whether batches span epochs, so that a pass is read in one go.
    has_windows : bool
        Whether a chunk is a window, which is read out of few shards.
    has_numbers : bool
        Whether samples are numbered, so that a position is how many of them were consumed.
    """

    spans_epochs: ClassVar[bool]
    has_windows: ClassVar[bool] = True
    has_numbers: ClassVar[bool] = True

    @property
    def has_equal_batches(self) -> bool:
        """Whether all ranks surely have the same number of batches."""
        return True

    @property
    def ends_alone(self) -> bool:
        """Whether a pass may be over on this rank, and go on elsewhere, for what it leaves out."""
        return False

    @property
    def num_samples(self) -> int:
        """Samples of an epoch over the whole world."""

    @property
    def rows_per_epoch(self) -> int:
        """Samples of this rank in one epoch, or one more or less."""

    @property
    def num_ranks(self) -> int:
        """Number of ranks that see different samples."""

    @property
    def needs_batch_size(self) -> bool:
        """Whether the samples depend on batches of a size that nobody has said."""
        return False

    def begun(self, place: Place) -> Place:
        """Return the same place for a pass that goes on there in this sampler's world.

        Raises
        ------
        StateMismatchError, NoDataAvailableError
            If it cannot.
        """

    def has_batches(self, place: Place) -> bool:
        """Whether there are batches from a place on."""

    def is_over(self, place: Place) -> bool:
        """Whether nothing is left of the pass, or of the epoch if no batch spans two."""

    def length(self) -> int:
        """Batches of a whole pass.

        Raises
        ------
        TypeError
            If nobody knows.
        """

    def position(self, place: Place) -> Any:
        """Return the position of a place."""

    def advanced(self, position: Any, mark: Any) -> Any:
        """Return the position after a batch, by the mark of its block for it."""

    def milestone(self, begun: Place, position: Any) -> Any:
        """Return the next position from which on a pass has something to note."""

    def prepare(self, place: Place) -> None:
        """Begin to work out the epoch after that of a place, if that takes long."""
        return

    def place(self, begun: Place, position: Any) -> Place:
        """Return the place of a position in a pass that has begun at another place."""

    def end(self, begun: Place) -> Any:
        """Return the position of the end of what has begun at a place."""

    def after_samples(self, begun: Place, samples: int) -> Any:
        """Return the position after so many samples of this rank, and of each other.

        Raises
        ------
        StateMismatchError
            If nobody knows.
        """

    def part(
        self, place: Place, part: int = 0, skipped: int = 0
    ) -> tuple[Iterator[Chunk], Iterator[int]]:
        """Return the numbers of the samples of a part from a place on, and its batches' sizes."""

    def after_part(
        self, place: Place, skipped: int, part: int, mark: Any
    ) -> tuple[Place, int, int]:
        """Return where a part goes on after its first batch: place, samples skipped, and part."""
