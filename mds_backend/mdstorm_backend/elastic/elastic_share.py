"""An elastic order with this process's share of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from mdstorm_backend.elastic.elastic_order import ElasticOrder
from mdstorm_backend.elastic.weights import StreamShape
from mdstorm_backend.order.world import World


@dataclass(frozen=True)
class ElasticShare:
    """An elastic order and which of its ranks this process is.

    Attributes
    ----------
    order : ElasticOrder
        The order.
    world : World
        The world as launched.
    follows_world : bool
        Whether the world in which a pass begins takes the place of `world`: see `share_of`.
    streams : tuple of StreamShape
        The streams of the dataset with their weights; empty for one without.
    states_batch_size : bool
        Whether the batch size of the order was asked for; otherwise it is that of the loader.
    """

    order: ElasticOrder
    world: World = field(default_factory=World)
    streams: tuple[StreamShape, ...] = ()
    states_batch_size: bool = True
    follows_world: bool = False

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.world.size

    @property
    def is_share(self) -> bool:
        """Whether other processes read other rows, as far as anybody knows."""
        return self.follows_world or self.world_size > 1

    def share_of(self, world: World) -> ElasticShare:
        """Return the same order with the share of a process in `world`."""
        return replace(self, world=world, follows_world=False)

    def of_batches(self, batch_size: int) -> ElasticOrder:
        """Return the order for batches of a loader."""
        return self.order if self.states_batch_size else replace(self.order, batch_size=batch_size)
