"""The arguments of the ``elastic`` order: everything but the streams and the world."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mdstorm_backend.base.checks import check_flag, check_one_of
from mdstorm_backend.elastic.id_arrays import as_integer
from mdstorm_backend.elastic.partitions import PARTITION_ALGORITHMS
from mdstorm_backend.elastic.shuffles import SHUFFLE_ALGORITHMS, block_range
from mdstorm_backend.elastic.weights import parse_epoch_size
from mdstorm_backend.order.exact import DEFAULT_SEED

if TYPE_CHECKING:
    from typing_extensions import Self

#: Names of the batching methods.
BATCHING_METHODS = ("random", "stratified", "per_stream", "device_per_stream")

#: Names of the sampling methods.
SAMPLING_METHODS = ("balanced", "fixed")

_REQUIRED = ("batch_size", "shuffle_seed", "sampling_granularity")
_CHOICES = {
    "shuffle_algo": SHUFFLE_ALGORITHMS,
    "partition_algo": PARTITION_ALGORITHMS,
    "batching_method": BATCHING_METHODS,
    "sampling_method": SAMPLING_METHODS,
}


@dataclass(frozen=True)
class OrderArguments:
    """What `ElasticOrder` is made with."""

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

    def __post_init__(self) -> None:
        check_flag("shuffle", self.shuffle)
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
                object.__setattr__(self, name, as_integer(name, value, least))
        object.__setattr__(self, "epoch_size", parse_epoch_size(self.epoch_size))
        for name, choices in _CHOICES.items():
            check_one_of(name, getattr(self, name), choices)
        if self.shuffle and self.shuffle_block_size is not None:
            block_range(self.shuffle_algo, self.shuffle_block_size)

    def resolved(self, num_nodes: int) -> Self:
        """Return the same order with canonical nodes and block size, given or default, filled in.

        Parameters
        ----------
        num_nodes : int
            Nodes of the (replicated) world in which the first epoch begins.
        """
        per_node = 64 if self.shuffle_algo in ("py1s", "py2s") else 1
        canonical = self.num_canonical_nodes or num_nodes * per_node
        block = self.shuffle_block_size or max(4_000_000 // canonical, 1 << 18)
        return replace(self, num_canonical_nodes=canonical, shuffle_block_size=block)
