"""Property test settings, and the samples read by all ranks in a world."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, settings

from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.elastic.batching import rank_work
from mdstorm_backend.order import StreamShape, World

#: Settings without a deadline, because the machine may be busy.
patient = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def world_work(
    order: ElasticOrder, streams: Sequence[StreamShape], world: World, *place: Any, **named: Any
) -> npt.NDArray[np.int64]:
    """Return all ranks' samples with shape (nodes, ranks, workers, batches, batch size)."""
    world = world.replicated(order.replication)
    order = replace(order, replication=None, streams=tuple(streams))
    ranks = (World(rank, world.size, world.local_size) for rank in range(world.size))
    of_ranks = (replace(order, world=rank) for rank in ranks)
    work = np.stack([rank_work(one, *place, **named) for one in of_ranks])
    return work.reshape(world.num_nodes, world.local_size, *work.shape[1:])
