"""`Sampler`, the interface of all orders, `Place`, how far the world has read, and `Chunk`.

A sampler yields the sample numbers of one rank and the sizes of its batches, from any place on. It
also does the arithmetic of progress: a pass keeps an opaque *position*, asks the sampler to advance
it by each batch, and converts it to a `Place` when a state is requested. States hold places, which
are the same on all ranks, so that another number of ranks can resume from them.

A sampler yields chunks, which readers cut into batches. A `Chunk` is a range of sample numbers
where rows are read in stored order, an array of numbers, or `RowsOnDemand`, whose order is computed
when a block is filled.

`ExactSampler` and `ElasticSampler` implement `Sampler`, and `PieceSampler` of the loaders for
samples that cannot be numbered. Passes use only this interface, whatever the order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.order.lanes import Lanes


@dataclass(frozen=True)
class Place:
    """How far the world has read in a pass; the same on all ranks, except for `row`.

    Attributes
    ----------
    epoch : int
        Number of the epoch, from 0.
    consumed : int
        Samples of the epoch that all ranks together have read. At the end of an epoch, all of them.
    first_epoch : int or None
        Epoch with which the pass began; None if a pass is to begin here.
    lanes : tuple of Lanes
        Layouts of the epoch in the ``exact`` order, one for each world that has read some of it.
        Empty at the beginning or end of an epoch.
    seed : int or None
        Seed that a state has given; None for that of the order.
    num_canonical_nodes, initial_physical_nodes : int or None
        Values of the ``elastic`` order from a state; None for those of the order and the world.
    end : int or None
        Value of `consumed` at the end of the epoch, padding included; None if not known. In the
        ``exact`` order it is set only at the end of a pass.
    row : int
        Rows of this rank's share that it has read in the epoch, if samples cannot be numbered.
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
        """Whether the end is known and has been reached."""
        return self.end is not None and self.consumed >= self.end

    def beginning_of(self, epoch: int) -> Place:
        """Return the beginning of a pass that starts with `epoch`, in the same order."""
        return replace(self, epoch=epoch, consumed=0, first_epoch=None, lanes=(), end=None, row=0)


class Sampler(Protocol):
    """The samples of one rank: their numbers, and the batches into which they are cut.

    Results depend only on the arguments, and samplers can be pickled. A *position* advances with
    each batch of a pass; only the sampler knows what it contains. A *part* is the share of one
    worker process.

    Attributes
    ----------
    spans_epochs : bool
        Whether batches may span epochs, so that a pass is read without interruption.
    has_windows : bool
        Whether each chunk is read from few shards, which are worth keeping open meanwhile.
    has_numbers : bool
        Whether samples are numbered, so that a position is a number of consumed samples.
    """

    spans_epochs: ClassVar[bool]
    has_windows: ClassVar[bool] = True
    has_numbers: ClassVar[bool] = True

    @property
    def has_equal_batches(self) -> bool:
        """Whether all ranks are certain to have the same number of batches."""
        return True

    @property
    def num_samples(self) -> int:
        """Samples of an epoch over the whole world."""

    @property
    def rows_per_epoch(self) -> int:
        """Samples of this rank in one epoch; other epochs may have one more or less."""

    @property
    def num_ranks(self) -> int:
        """Number of ranks that read different samples."""

    @property
    def needs_batch_size(self) -> bool:
        """Whether the samples depend on a batch size that was not given."""
        return False

    def begun(self, place: Place) -> Place:
        """Return `place` completed for a pass that begins or resumes there in this world.

        Raises
        ------
        StateMismatchError, NoDataAvailableError
            If a pass cannot resume there.
        """

    def has_batches(self, place: Place) -> bool:
        """Whether there are batches from a place on."""

    def is_over(self, place: Place) -> bool:
        """Whether the pass has been read, or the epoch if no batch spans two."""
        return not self.has_batches(place)

    def length(self) -> int:
        """Return the number of batches of a whole pass.

        Raises
        ------
        TypeError
            If the number is not known.
        """

    def position(self, place: Place) -> Any:
        """Return the position of a place."""

    def advanced(self, position: Any, mark: Any) -> Any:
        """Return the position after a batch, given the mark that its block has for it."""

    def milestone(self, begun: Place, position: Any) -> Any:
        """Return the next position at which the pass records an epoch or prepares the next one."""

    def prepare(self, place: Place) -> None:
        """Start computing the epoch after that of a place in the background, if that takes long."""
        return

    def place(self, begun: Place, position: Any) -> Place:
        """Return the place of a position in a pass that began at `begun`."""

    def end(self, begun: Place) -> Any:
        """Return the end of the pass begun at `begun`, or of its epoch if no batch spans two."""

    def after_samples(self, begun: Place, samples: int) -> Any:
        """Return the position after every rank has read so many samples.

        Raises
        ------
        StateMismatchError
            If numbers of samples do not determine a position.
        """

    def part(
        self, place: Place, part: int = 0, skipped: int = 0
    ) -> tuple[Iterator[Chunk], Iterator[int]]:
        """Return a part's chunks after a place and `skipped` samples, and its batch sizes."""

    def after_part(
        self, place: Place, skipped: int, part: int, mark: Any
    ) -> tuple[Place, int, int]:
        """Return the place, skipped samples and part with which a part resumes after one batch."""


@dataclass(frozen=True)
class ShardRows:
    """The shard and the row of each of some samples, in any order.

    Attributes
    ----------
    shards : numpy.ndarray
        int64, numbers of the shards that hold the samples.
    firsts : numpy.ndarray
        int64, number of the first sample of each shard.
    owners : numpy.ndarray
        For each sample, the position of its shard in `shards`. Of a short unsigned type if that
        is enough, because NumPy's stable sort is a radix sort then.
    rows : numpy.ndarray
        int64, for each sample, its row within the shard.
    """

    shards: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    owners: npt.NDArray[np.integer[Any]]
    rows: npt.NDArray[np.int64]

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The sample numbers in the dataset, int64."""
        found: npt.NDArray[np.int64] = self.firsts[self.owners] + self.rows
        return found


def short_type(count: int) -> np.dtype[Any]:
    """Return the dtype for numbers below `count` with the fastest stable sort."""
    return np.dtype(np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.int64)


@dataclass(frozen=True)
class RowsOnDemand:
    """Samples whose order is computed when they are read.

    Attributes
    ----------
    find : callable
        Returns the shards and rows of the samples at some positions.
    part : range
        The positions of these samples.
    """

    find: Callable[[range], ShardRows]
    part: range

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, chosen: slice) -> RowsOnDemand:
        return RowsOnDemand(self.find, self.part[chosen])

    def found(self) -> ShardRows:
        """Return the shards and rows of the samples."""
        return self.find(self.part)


#: Samples in reading order, by number or as rows of shards. A range is read at memory speed.
Chunk: TypeAlias = range | npt.NDArray[np.int64] | RowsOnDemand
