"""The ``exact`` order: every row exactly once per epoch, over all ranks together.

The order is a pure function of its arguments. Rank r of W reads the rows from ``r·N // W`` to
``(r + 1)·N // W`` in stored order, whatever the seed. Within that range, shards can be shuffled,
and rows within windows of whole shards, both differently in each epoch. The rest of an epoch that
began in another world is split in the same way: see `mdstorm_backend.order.history`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.checks import check_integer
from mdstorm_backend.errors import NoDataAvailableError
from mdstorm_backend.order.history import History, Stretch
from mdstorm_backend.order.shares import Split
from mdstorm_backend.order.world import World

#: The seed of all ranks if none is given: all must permute by the same one, or a state taken on one
#: rank would lose and repeat rows on another. MosaicML Streaming has the same default.
DEFAULT_SEED = 9176

_SHARDS, _ROWS = 0, 1


@dataclass(frozen=True)
class Piece:
    """The samples `start` to `stop` of the shard number `shard`."""

    shard: int
    start: int
    stop: int


@dataclass(frozen=True)
class ExactOrder:
    """The order in which one rank reads its rows.

    Attributes
    ----------
    seed : int or None
        Seed of all permutations. None and 0: see `resolved`.
    shuffle_shards : bool
        Whether to shuffle the shards of the rank.
    shuffle_rows : bool
        Whether to shuffle the rows within each shard.
    window : int
        Rows are shuffled within windows of whole shards with at least this many rows. 0 means no
        windows.
    rank, world_size : int
        Select the share of the rows to read.
    follows_world : bool or None
        Whether the share is determined when a pass begins: see `share_of`. None, the default, means
        yes for a `StreamingDataset` unless `world_size` is passed, and no for everything else.
    padded_to : int
        Rows per batch if shares are to be such that only the last global batch needs padding, see
        `Split`; 0 for shares that differ by at most one row.
    history : History or None
        What was already delivered of the pass, in other worlds or with other batch sizes; None for
        a pass from its beginning.

    Examples
    --------
    The share of rank 1 of 3 in a dataset of ten rows:

    >>> from mdstorm_backend import MDSWriter, open_dataset
    >>> with MDSWriter(out="/tmp/ten", columns={"x": "int"}) as writer:
    ...     for x in range(10):
    ...         writer.write({"x": x})
    >>> order = ExactOrder(rank=1, world_size=3)
    >>> [batch["x"].tolist() for batch in open_dataset("/tmp/ten").batches(4, order=order)]
    [[3, 4, 5]]
    """

    seed: int | None = None
    shuffle_shards: bool = False
    shuffle_rows: bool = False
    window: int = 0
    rank: int = 0
    world_size: int = 1
    follows_world: bool | None = None
    padded_to: int = 0
    history: History | None = None

    def __post_init__(self) -> None:
        check_integer("seed", self.seed, lowest=0)
        for name in ("seed", "window", "rank", "world_size"):
            value = getattr(self, name)
            if isinstance(value, np.integer):  # not JSON serializable, as states must be
                object.__setattr__(self, name, int(value))
        World(self.rank, self.world_size)  # which checks them

    @property
    def shuffles(self) -> bool:
        """Whether rows are shuffled within shards."""
        return self.shuffle_rows or self.window > 0

    @property
    def is_share(self) -> bool:
        """Whether other processes are known to read other rows."""
        return self.follows_world or self.world_size > 1

    @property
    def split(self) -> Split:
        """How the rows of an epoch are split among the ranks."""
        return Split(self.world_size, self.padded_to)

    def share_of(self, world: World) -> ExactOrder:
        """Return the same order with the share of a process in `world`."""
        return replace(self, rank=world.rank, world_size=world.size, follows_world=False)

    def resolved(self) -> ExactOrder:
        """Return the same order with a fixed seed.

        Without one, a share of the rows has `DEFAULT_SEED`, the same on all ranks; otherwise one is
        drawn from the operating system.
        """
        if self.seed:
            return self
        return replace(self, seed=DEFAULT_SEED if self.is_share else secrets.randbits(63) | 1)

    def rows(self, num_rows: int) -> tuple[int, int]:
        """Return the first row of this rank among `num_rows`, and the row after its last.

        Raises
        ------
        NoDataAvailableError
            If there are fewer rows than ranks, but some.
        """
        if 0 < num_rows < self.world_size:
            raise NoDataAvailableError(
                f"Number of row-groups in the dataset must be greater or equal to the number of "
                f"requested shards: there are {num_rows} rows for {self.world_size} ranks. Use "
                "fewer ranks or more data"
            )
        rows = self.split.share(num_rows, self.rank)
        return rows.start, rows.stop

    def rows_in(self, num_rows: int, epoch: int) -> int:
        """Return how many rows this rank has in an epoch, or in what is left of it."""
        if self.history is not None:
            remaining = self.history.remaining(num_rows)
            return remaining.rows_of(self.rank, self.split).of_epoch(epoch)
        first, last = self.rows(num_rows)
        return last - first

    def parts(self, num_rows: int, epoch: int) -> list[tuple[ExactOrder, range]]:
        """Return the parts of whole orders of which this one consists in an epoch.

        That is one, unless the epoch was begun in another world.

        Returns
        -------
        list of (ExactOrder, range)
            An order without a history, and which of its rows are to be read, counted from 0.
        """
        if self.history is None:
            first, last = self.rows(num_rows)
            return [(self, range(last - first))]
        remaining = self.history.remaining(num_rows)
        stretches = remaining.stretches(epoch, self.rank, self.split)
        return [(self._of(stretch), range(stretch.start, stretch.stop)) for stretch in stretches]

    def _of(self, stretch: Stretch) -> ExactOrder:
        world_size, padded_to = stretch.split
        return replace(
            self, rank=stretch.rank, world_size=world_size, padded_to=padded_to, history=None
        )

    def rows_left(self, num_rows: int) -> int:
        """Return how many rows all ranks together have of the first epoch that is not over."""
        if self.history is None:
            return num_rows
        begun = self.history.remaining(num_rows).begun
        return begun[0].rows if begun else num_rows

    def pieces(self, shard_sizes: Sequence[int], epoch: int) -> list[Piece]:
        """Return this rank's share of each shard, in the order of `epoch`."""
        first, last = self.rows(sum(shard_sizes))
        pieces, begin = [], 0
        for shard, size in enumerate(shard_sizes):
            start, stop = max(first - begin, 0), min(last - begin, size)
            if start < stop:
                pieces.append(Piece(shard, start, stop))
            begin += size
        if not self.shuffle_shards:
            return pieces
        return [pieces[i] for i in self._generator(epoch, _SHARDS).permutation(len(pieces))]

    def permutation(self, num_rows: int, epoch: int, number: int) -> npt.NDArray[np.int64] | None:
        """Return the permutation of the rows of window `number` of `epoch`; None for none."""
        if not self.shuffles:
            return None
        return self._generator(epoch, _ROWS, number).permutation(num_rows)

    def _generator(self, *stream: int) -> np.random.Generator:
        assert self.seed, "resolved() has not been called"
        return np.random.default_rng([self.seed, *stream])
