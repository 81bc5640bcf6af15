"""A new order in one module, which reads each shard from its end.

pytest loads this module as a plugin, so that the laws of orders also run over it. Its plan reads
the lanes of an `ExactPlan`, and mirrors the numbers of each shard.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.order import (
    Batching,
    Chunk,
    ExactOrder,
    ExactPlan,
    Order,
    Position,
    Samples,
    World,
)
from mdstorm_backend.order.chunk import numbers_of


@dataclass(frozen=True)
class FromEnd(Order):
    """The order ``from-end``."""

    name = "from-end"
    has_fixed_share = True

    world: World = World()  # noqa: RUF009  # frozen
    follows_world: bool | None = None

    @classmethod
    def of_reader(cls, seed: int | None, shards: bool, rows: bool, queue: int) -> "FromEnd":
        return cls()

    @classmethod
    def of_state(cls, state: Mapping[str, Any], world: World, batch_size: int) -> "FromEnd":
        return cls(world, follows_world=False)

    def share_of(self, world: World) -> "FromEnd":
        return replace(self, world=world, follows_world=False)

    def plan(
        self, batching: Batching, bounds: npt.NDArray[np.int64], start: Position, url: str
    ) -> "FromEndPlan":
        lanes = ExactOrder(rank=self.world.rank, world_size=self.world.size)
        return FromEndPlan(lanes, bounds, batching=batching, start=start)

    def settings(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, eq=False)
class FromEndPlan(ExactPlan):
    """Lanes of the exact order, with each shard mirrored."""

    def samples(self, part: int | None = 0) -> Samples:
        found = super().samples(part)
        return found._replace(chunks=map(self._mirrored, found.chunks))

    def _mirrored(self, chunk: Chunk) -> npt.NDArray[np.int64]:
        numbers = numbers_of(chunk)
        shards = np.searchsorted(self.bounds, numbers, side="right")
        mirrored: npt.NDArray[np.int64] = self.bounds[shards - 1] + self.bounds[shards] - 1
        return mirrored - numbers
