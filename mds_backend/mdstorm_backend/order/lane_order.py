"""`LaneOrder`: what plans ask of an order whose ranks read lanes of rows, such as `ExactOrder`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from mdstorm_backend.order.chunk import Chunk, Numbers
from mdstorm_backend.order.windows import Windows


class LaneOrder(Protocol):
    """An order whose ranks read ranges of rows, shard by shard; see `ExactOrder` for its parts."""

    @property
    def seed(self) -> int | None:
        """The seed of all permutations."""

    @property
    def rule(self) -> int:
        """See `LATEST_RULE`."""

    @property
    def rank(self) -> int:
        """The rank of this process."""

    @property
    def world_size(self) -> int:
        """Number of ranks."""

    @property
    def padded_to(self) -> int:
        """See `Lanes`."""

    @property
    def shuffles(self) -> bool:
        """Whether rows are shuffled within shards or windows."""

    @property
    def windows(self) -> Windows:
        """How a lane is cut into windows, within which rows are shuffled."""

    def rows(self, num_rows: int) -> range:
        """Return this rank's rows."""

    def pieces(self, bounds: Numbers, rows: range, epoch: int, lane: int) -> list[range]:
        """Return the part of `rows` in each shard, with the shards in the order of `epoch`."""

    def chunks(
        self, bounds: Numbers, rows: range, epoch: int, lane: int, used: range
    ) -> Iterator[Chunk]:
        """Yield the rows at the positions `used` in the order of `epoch`, by window or shard."""

    def permutation(self, num_rows: int, epoch: int, lane: int, number: int) -> Numbers:
        """Return the permutation of the rows in window `number` of a lane in `epoch`."""
