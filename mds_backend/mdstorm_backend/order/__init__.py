"""The ``exact`` order: every row once per epoch, divided among the ranks of the world.

`find_world` finds this process's rank. An `ExactOrder` holds the settings: seed, shuffling, rank.
It is an `Order`, of which loaders ask all that depends on the order. An `ExactPlan` turns it into
the sample numbers and batches of one rank, starting from any `Position` in a pass. It is a `Plan`,
the interface through which loaders read in any order; the ``elastic`` order has its own plan in
`mdstorm_backend.elastic`.

All of this is computed from a few numbers, without reading data and without communication, so every
rank can work out where the whole world is.
"""

from __future__ import annotations

from mdstorm_backend.order.chunk import Chunk
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.exact_plan import ExactPlan
from mdstorm_backend.order.lanes import ceil_div
from mdstorm_backend.order.order import (
    DEFAULT_SEED,
    Order,
    check_order,
    order_named,
    order_names,
)
from mdstorm_backend.order.plan import Batching, Plan, Position, Samples
from mdstorm_backend.order.row_plan import ROWS_UNKNOWN, RowPlan
from mdstorm_backend.order.streams import StreamShape, StreamWeight
from mdstorm_backend.order.weighted_order import WeightedOrder
from mdstorm_backend.order.weighting import (
    Weighting,
    check_column,
    check_epoch_size,
    check_weights,
)
from mdstorm_backend.order.world import World, find_world, given_world

__all__ = [
    "DEFAULT_SEED",
    "ROWS_UNKNOWN",
    "Batching",
    "Chunk",
    "ExactOrder",
    "ExactPlan",
    "Order",
    "Plan",
    "Position",
    "RowPlan",
    "Samples",
    "StreamShape",
    "StreamWeight",
    "WeightedOrder",
    "Weighting",
    "World",
    "ceil_div",
    "check_column",
    "check_epoch_size",
    "check_order",
    "check_weights",
    "find_world",
    "given_world",
    "order_named",
    "order_names",
]
