"""`ElasticSettings`: settings of the ``elastic`` order, and a rank in it; see `ElasticOrder`."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.checks import (
    check_flag,
    check_one_of,
    make_scalars_plain,
    warn_user,
)
from mdstorm_backend.elastic import sampling
from mdstorm_backend.elastic.epoch_cache import EpochCache
from mdstorm_backend.elastic.partitions import PARTITION_ALGORITHMS
from mdstorm_backend.elastic.sampling import ShardSample
from mdstorm_backend.elastic.shuffles import SHUFFLE_ALGORITHMS, block_range
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.order import (
    DEFAULT_SEED,
    Chunk,
    Order,
    Position,
    StreamShape,
    StreamWeight,
    World,
)
from mdstorm_backend.order.state_values import number

if TYPE_CHECKING:
    from typing_extensions import Self

#: Names of the batching methods.
BATCHING_METHODS = ("random", "stratified", "per_stream", "device_per_stream")

#: Names of the sampling methods.
SAMPLING_METHODS = ("balanced", "fixed")

#: Fields of an order that `ElasticOrder.settings` omits. MosaicML Streaming's states have
#: their own keys for the first two. The other two may change with the world, if the global batch
#: size stays the same.
_NOT_IN_SETTINGS = ("shuffle_seed", "num_canonical_nodes", "batch_size", "replication")

_REQUIRED = ("batch_size", "shuffle_seed", "sampling_granularity")
_CHOICES = {
    "shuffle_algo": SHUFFLE_ALGORITHMS,
    "partition_algo": PARTITION_ALGORITHMS,
    "batching_method": BATCHING_METHODS,
    "sampling_method": SAMPLING_METHODS,
}


@dataclass(frozen=True)
class ElasticSettings(Order):
    """What an `ElasticOrder` is made of, apart from its plan; see there."""

    batch_size: int
    shuffle: bool = False
    shuffle_algo: str = "py1e"
    shuffle_seed: int = DEFAULT_SEED
    shuffle_block_size: int | None = None
    partition_algo: str = "relaxed"
    num_canonical_nodes: int | None = None
    batching_method: str = "random"
    sampling_method: str = "balanced"
    sampling_granularity: int = 1
    epoch_size: int | str | None = None
    replication: int | None = None
    # The fields below are not settings: they describe this process and its data.
    _: KW_ONLY
    world: World = World()  # noqa: RUF009  # frozen
    streams: tuple[StreamShape, ...] = field(default=(), repr=False)
    states_batch_size: bool = True
    follows_world: bool | None = None
    cache: EpochCache[list[Chunk]] = field(default_factory=EpochCache, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_flag("shuffle", self.shuffle)
        make_scalars_plain(self)
        for name, least in (
            ("batch_size", 1),
            ("shuffle_seed", 0),
            ("shuffle_block_size", 1),
            ("num_canonical_nodes", 1),
            ("sampling_granularity", 1),
            ("replication", 1),
        ):
            value = getattr(self, name)
            if value is not None or name in _REQUIRED:
                object.__setattr__(self, name, sampling.as_integer(name, value, least))
        object.__setattr__(self, "epoch_size", sampling.parse_epoch_size(self.epoch_size))
        for name, choices in _CHOICES.items():
            check_one_of(name, getattr(self, name), choices)
        if self.shuffle and self.shuffle_block_size is not None:
            block_range(self.shuffle_algo, self.shuffle_block_size)

    @classmethod
    def of_reader(cls, seed: int | None, shards: bool, rows: bool, queue: int) -> Self:
        """Return the order for a reader's arguments; the loader determines the batch size."""
        seed = secrets.randbits(32) | 1 if seed is None else seed
        order = cls(1, shards or rows, shuffle_seed=seed, states_batch_size=False)
        return order.with_queue(queue) if queue else order

    @classmethod
    def of_state(cls, state: Mapping[str, Any], world: World, batch_size: int) -> Self:
        """Return the order in which a state was taken, for a rank of `world`."""
        seed, ours = number(state, "shuffle_seed"), state["mdstorm"]
        replication = number(ours, "replication", 1) if "replication" in ours else None
        size = world.replicated(replication).size
        nodes = state.get("initial_physical_nodes") or size
        world = replace(world, local_size=1 if size % nodes else size // nodes)
        settings = {**ours["settings"], "shuffle_seed": seed, "replication": replication}
        settings.pop("weights", None)  # a hash of what the streams have
        order = cls(batch_size, **settings, world=world)
        canonical = number(state, "num_canonical_nodes", 1)
        # The default depends on the world in which the first epoch begins, which may be another.
        is_default = canonical == order.canonical_nodes_for(nodes)
        return order if is_default else replace(order, num_canonical_nodes=canonical)

    def over(self, shapes: Sequence[StreamShape], *, chosen: bool) -> Self:
        """Return the order for these streams, unless it has its own; chosen rows are in none."""
        is_divided = self.batching_method != "random" or self.epoch_size is not None
        if chosen and (is_divided or any(shape.weighting for shape in shapes)):
            raise InvalidArgumentError(
                "rows= and where= choose the rows of an epoch from all streams together, so they "
                "cannot be combined with proportion, repeat or choose of a stream, with "
                "batching_method or with epoch_size: repeat numbers in rows= instead"
            )
        return self if self.streams else replace(self, streams=tuple(shapes))

    def resolved(self, num_nodes: int) -> Self:
        """Return the same order with defaults filled in for canonical nodes and block size.

        Parameters
        ----------
        num_nodes : int
            Number of nodes in the (replicated) world in which the first epoch begins.
        """
        canonical = self.canonical_nodes_for(num_nodes)
        block = self.shuffle_block_size or max(4_000_000 // canonical, 1 << 18)
        return replace(self, num_canonical_nodes=canonical, shuffle_block_size=block)

    def canonical_nodes_for(self, num_nodes: int) -> int:
        """Return the number of canonical nodes if the first epoch begins on `num_nodes` nodes."""
        per_node = 64 if self.shuffle_algo in ("py1s", "py2s") else 1
        return self.num_canonical_nodes or num_nodes * per_node

    @property
    def stream_weights(self) -> tuple[StreamWeight, ...]:
        """Each stream's part of an epoch: see `mdstorm_backend.elastic.sampling.weigh`."""
        assert not isinstance(self.epoch_size, str)  # parsed in the constructor
        return sampling.weigh(self.streams, self.epoch_size, self.shuffle_seed)

    @property
    def num_samples(self) -> int:
        """Number of samples in an epoch over all ranks, not counting padding."""
        return sum(weight.choose for weight in self.stream_weights)

    def samples(self, epoch: int) -> Iterator[ShardSample]:
        """Yield how many samples each shard contributes to an epoch, stream by stream."""
        vary = self.shuffle and self.sampling_method == "balanced"
        first_id = 0
        for stream, weight in zip(self.streams, self.stream_weights, strict=True):
            sizes = np.array(stream.shard_sizes, np.int64)
            counts = sampling.samples_per_shard(
                sizes, weight.choose, self.sampling_granularity, self.shuffle_seed, epoch, vary
            )
            yield ShardSample(weight.proportion, first_id, sizes, counts)
            first_id += stream.num_samples

    @property
    def uses_seed(self) -> bool:
        """Whether the seed affects the order of samples, or which samples an epoch has."""
        is_part = self.epoch_size is not None or any(one.weighting for one in self.streams)
        mixes_streams = self.batching_method != "random" and len(self.streams) > 1
        return self.shuffle or mixes_streams or is_part

    @property
    def sequence(self) -> str:
        """A short description, such as ``elastic order, shuffled by py1e, seed 9176``."""
        if not self.shuffle:
            return "elastic order, sequential"
        return f"elastic order, shuffled by {self.shuffle_algo}, seed {self.shuffle_seed}"

    def check_batches_unknown(self, num_workers: int) -> None:
        """Raise InvalidArgumentError if the order depends on a batch size that was not given."""
        depends = num_workers > 1 or self.batching_method != "random"
        if depends and not self.states_batch_size:
            raise InvalidArgumentError(
                "the order of samples depends on the batches: please pass `batch_size` to the "
                "StreamingDataset, the same as to the loader"
            )

    def state_keys(self, position: Position) -> dict[str, Any]:
        """Return the state entries that MosaicML Streaming defines."""
        nodes = self.world.replicated(self.replication).num_nodes
        canonical = position.num_canonical_nodes or self.canonical_nodes_for(nodes)
        is_unbegun = position.epoch == 0 and position.first_epoch is None
        return {
            "epoch": -1 if is_unbegun else position.epoch,
            "num_canonical_nodes": canonical,
            "shuffle_seed": self.shuffle_seed if position.seed is None else position.seed,
            "initial_physical_nodes": position.initial_physical_nodes or nodes,
        }

    def recorded(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return no arguments, as MosaicML Streaming's states have none."""
        return {}

    def compared_between_epochs(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the data and the chosen rows: settings may change between epochs."""
        return {name: values[name] for name in ("dataset", "rows")}

    def check_seed(self, seed: object, rank: int) -> None:
        """Warn if another rank took a state with another seed, as MosaicML Streaming loads it."""
        try:
            super().check_seed(seed, rank)
        except StateMismatchError as error:
            warn_user(str(error))

    def settings(self) -> dict[str, Any]:
        """Return the settings that MosaicML Streaming's state entries do not cover."""
        names = [name for name in SETTINGS if name not in _NOT_IN_SETTINGS]
        return {**{name: getattr(self, name) for name in names}, "weights": self._hash_of_weights}

    def compared_settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the settings without weights, which depend on the data, and the epoch size."""
        settings = self.settings()
        del settings["weights"]
        return settings, {"epoch_size": settings.pop("epoch_size")}

    @cached_property
    def _hash_of_weights(self) -> str:
        counts = [weight.choose for weight in self.stream_weights]
        return hashlib.sha256(repr(counts).encode()).hexdigest()[:8]

    @cached_property
    def num_ranks(self) -> int:
        """Number of ranks that read different samples."""
        return self.world.replicated(self.replication).size

    def share_of(self, world: World) -> Self:
        """Return the same order for the rank and size of `world`, which must be known."""
        return replace(self, world=world.known(), follows_world=False)

    def with_queue(self, queue: int) -> Self:
        """Return the order, shuffled in blocks of `queue` samples; 1 means the default size."""
        block_size = queue if queue > 1 else None
        return replace(self, shuffle=True, shuffle_block_size=block_size)

    def shown_from(self, position: Position) -> dict[str, Any]:
        """Return the seed, canonical nodes and block size from `position` onward."""
        order = self.resumed(position)
        return {name: getattr(order, name) for name in self.late_settings}

    def resumed(self, position: Position) -> Self:
        """Return the order with the seed and canonical nodes of `position`, and defaults set.

        It does not share the cache, because the cache keeps it as a key.
        """
        keys = self.state_keys(position)
        canonical, seed = keys["num_canonical_nodes"], keys["shuffle_seed"]
        order = replace(self, num_canonical_nodes=canonical, shuffle_seed=seed, cache=EpochCache())
        return order.resolved(self.world.replicated(self.replication).num_nodes)


#: The settings of an `ElasticOrder`, and their defaults.
SETTINGS = {one.name: one.default for one in fields(ElasticSettings) if not one.kw_only}
