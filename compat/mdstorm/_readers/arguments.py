"""Petastorm's reader arguments: checked, and in which order they have rows come."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Literal

from mdstorm._readers.cache_arguments import make_cache
from mdstorm._readers.fields import field_patterns
from mdstorm._readers.options import reader_options
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm.predicates import PredicateBase
from mdstorm.selectors import RowGroupSelectorBase
from mdstorm.transform import TransformSpec
from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.frameworks.elastic_share import ElasticShare
from mdstorm_backend.frameworks.reader_options import ReaderOptions
from mdstorm_backend.integers import is_integer
from mdstorm_backend.order import DEFAULT_SEED, ExactOrder
from mdstorm_backend.read.batch_reader import check_num_epochs
from mdstorm_backend.read.source import SampleSource
from mdstorm_backend.user_warnings import warn_user
from mdstorm_backend.world import World

__all__ = ["DEFAULT_WORKERS", "ReaderArguments", "check_arguments", "check_integer", "with_window"]

_ORDERS = ("exact", "elastic")
_POOLS = ("thread", "process", "dummy")
#: Petastorm's number of workers in the methods of the converter.
DEFAULT_WORKERS = 4

#: Petastorm's, but for those that name the dataset, and three of ours.
_KNOWN = {
    "cache_extra_settings",
    "cache_location",
    "cache_row_size_estimate",
    "cache_size_limit",
    "cache_type",
    "convert_early_to_numpy",
    "cur_shard",
    "filesystem",
    "fill_nulls",
    "filters",
    "hdfs_driver",
    "null_masks",
    "order",
    "predicate",
    "reader_pool_type",
    "results_queue_size",
    "rowgroup_selector",
    "schema_fields",
    "seed",
    "shard_count",
    "shard_seed",
    "shuffle_row_drop_partitions",
    "shuffle_row_groups",
    "shuffle_rows",
    "storage_options",
    "transform_spec",
    "zmq_copy_buffers",
}


def check_arguments(method: str, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that readers do not know.

    Raises
    ------
    ArgumentTypeError
        If there is one; also TypeError.
    """
    for name in arguments:
        if name in ("dataset_url_or_urls", "dataset_url"):
            raise ArgumentTypeError(
                f"{method}() got multiple values for argument {name!r}: the converter knows its "
                "own dataset, leave the argument out"
            )
        if name not in _KNOWN:
            raise ArgumentTypeError(
                f"{method}() got an unexpected keyword argument {name!r}. Reader arguments are "
                f"{', '.join(sorted(_KNOWN))}"
            )


@dataclass(frozen=True)
class ReaderArguments:
    """The arguments of a reader, or of a method of the converter that reads, checked.

    Attributes
    ----------
    method : str
        The function or method that they were given to, for messages.
    num_epochs, workers_count, shuffling_queue_capacity
        Its own arguments; a reader has no shuffling queue.
    others : dict
        Petastorm's reader arguments, and ``fill_nulls``, ``null_masks`` and ``order``.
    """

    method: str
    num_epochs: int | None
    workers_count: int | None
    shuffling_queue_capacity: int | None
    others: dict[str, Any]

    def __post_init__(self) -> None:
        check_arguments(self.method, self.others)
        check_num_epochs(self.num_epochs)
        check_integer("workers_count", self.workers_count, lowest=1)
        check_integer("shuffling_queue_capacity", self.shuffling_queue_capacity)
        check_integer("seed", self.others.get("seed"), lowest=0)
        check_integer("shard_seed", self.others.get("shard_seed"), lowest=0)
        check_integer("results_queue_size", self.others.get("results_queue_size"), lowest=1)
        check_integer(
            "shuffle_row_drop_partitions", self.others.get("shuffle_row_drop_partitions"), lowest=1
        )
        _check_shapes(self.others)
        if self.others.get("reader_pool_type", "thread") not in _POOLS:
            raise InvalidArgumentError(
                f"Unknown reader_pool_type: {self.others['reader_pool_type']}. Use one of {_POOLS}"
            )
        if self.others.get("order", "exact") not in _ORDERS:
            raise InvalidArgumentError(
                f"Unknown order: {self.others['order']!r}. Use one of {_ORDERS}"
            )
        _check_objects(self.others)
        make_cache(self.others)
        _check_shard(self.cur_shard, self.shard_count)

    @property
    def cur_shard(self) -> int | Literal["auto"] | None:
        """Rank, if given."""
        return self.others.get("cur_shard")

    @property
    def shard_count(self) -> int | Literal["auto"] | None:
        """World size, if given."""
        return self.others.get("shard_count")

    @property
    def is_auto(self) -> bool:
        """Whether the share is this process's in the world, when a pass begins."""
        return _is_auto(self.cur_shard) or _is_auto(self.shard_count)

    @property
    def is_share(self) -> bool:
        """Whether shard arguments are given."""
        return self.cur_shard is not None or self.shard_count is not None

    @property
    def workers(self) -> int:
        """Threads that read."""
        if self.others.get("reader_pool_type") == "dummy":
            return 0
        return min(int(self.workers_count or DEFAULT_WORKERS), os.cpu_count() or 1)

    @property
    def prefetch(self) -> int:
        """Results that may be ready ahead of use, enough to keep all workers busy."""
        return max(min(int(self.others.get("results_queue_size") or 50), self.workers + 2), 1)

    @property
    def storage(self) -> dict[str, Any]:
        """How to get at the files."""
        return {name: self.others.get(name) for name in ("storage_options", "filesystem")}

    @property
    def is_elastic(self) -> bool:
        """Whether the order is the elastic one, MosaicML Streaming's."""
        return self.others.get("order") == "elastic"

    def order(self) -> ExactOrder | ElasticShare:
        """Return the order that the arguments ask for, its seed fixed."""
        if self.others.get("shard_seed") is not None:
            warn_user("shard_seed was deprecated: use seed")
        seed = self._seed()
        shuffle_shards = bool(self.others.get("shuffle_row_groups", True))
        shuffle_rows = bool(self.others.get("shuffle_rows", False))
        window = max(int(self.shuffling_queue_capacity or 0), 0)
        world = World()
        if self.is_share and not self.is_auto:
            world = World(int(self.cur_shard or 0), int(self.shard_count or 1))
        if not self.is_elastic:
            return ExactOrder(
                seed,
                shuffle_shards,
                shuffle_rows,
                window,
                world.rank,
                world.size,
                follows_world=self.is_auto,
            ).resolved()
        order = ElasticOrder(
            batch_size=1,  # that of the loader takes its place
            shuffle=shuffle_shards or shuffle_rows or window > 0,
            shuffle_seed=secrets.randbits(32) | 1 if seed is None else seed,
            shuffle_block_size=window if window > 1 else None,
        )
        return ElasticShare(order, world, states_batch_size=False, follows_world=self.is_auto)

    def _seed(self) -> int | None:
        """Return the seed that is given, or that of all shares; None for neither."""
        given = [self.others.get(name) for name in ("seed", "shard_seed")]
        # 0 is no seed in Petastorm, whose order the exact one is.
        seeds = [int(seed) for seed in given if seed or (self.is_elastic and seed is not None)]
        if seeds:
            return seeds[0]
        return DEFAULT_SEED if self.is_share else None

    def options(
        self, source: SampleSource, order: ExactOrder | ElasticShare, **others: Any
    ) -> ReaderOptions:
        """Return how to read `source`, see `reader_options` for `others`."""
        return reader_options(self, source, order, **others)


def with_window(order: ExactOrder | ElasticShare, window: int) -> ExactOrder | ElasticShare:
    """Return the order with a shuffling queue of that capacity; 0 leaves it as it is."""
    if window <= 0:
        return order
    if isinstance(order, ExactOrder):
        return replace(order, window=window)
    block_size = window if window > 1 else None
    shuffled = replace(order.order, shuffle=True, shuffle_block_size=block_size)
    return replace(order, order=shuffled)


def check_integer(name: str, value: Any, *, lowest: int | None = None) -> None:
    """Raise InvalidArgumentError unless `value` is None or an integer of at least `lowest`."""
    if value is not None and not (is_integer(value) and (lowest is None or value >= lowest)):
        bound = "" if lowest is None else f" of at least {lowest}"
        raise InvalidArgumentError(f"{name} must be an integer{bound} or None, found {value!r}")


def _check_shapes(others: Mapping[str, Any]) -> None:
    """Check what does not depend on the columns."""
    if others.get("schema_fields") is not None:
        field_patterns(others["schema_fields"])
    for name in ("cache_extra_settings", "fill_nulls", "storage_options"):
        if not isinstance(others.get(name), (Mapping, NoneType)):
            raise ArgumentTypeError(f"{name} must be a dict, found {others[name]!r}")
    masks = others.get("null_masks")
    if isinstance(masks, str) or not isinstance(masks, (Sequence, NoneType)):
        raise ArgumentTypeError(f"null_masks must be a list of columns, found {masks!r}")


def _check_objects(others: Mapping[str, Any]) -> None:
    spec, predicate = others.get("transform_spec"), others.get("predicate")
    if spec is not None and not isinstance(spec, TransformSpec):
        raise ArgumentTypeError(
            f"transform_spec must be a TransformSpec, found {type(spec).__name__}: wrap the "
            "function, TransformSpec(function)"
        )
    selector = others.get("rowgroup_selector")
    if selector is not None and not isinstance(selector, RowGroupSelectorBase):
        raise InvalidArgumentError(
            "rowgroup_selector parameter is expected to be derived from RowGroupSelectorBase, "
            f"found {selector!r}: use one of mdstorm.selectors"
        )
    if predicate is not None and not isinstance(predicate, PredicateBase):
        raise InvalidArgumentError(
            f"predicate parameter is expected to be derived from PredicateBase, found "
            f"{predicate!r}: wrap a function in mdstorm.predicates.in_lambda"
        )


def _is_auto(shard: Any) -> bool:
    return isinstance(shard, str) and shard == "auto"


def _check_shard(cur_shard: Any, shard_count: Any) -> None:
    if cur_shard is None and shard_count is None:
        return
    given = {"cur_shard": cur_shard, "shard_count": shard_count}
    autos = [name for name, value in given.items() if _is_auto(value)]
    if autos:
        wrong = [name for name, value in given.items() if value is not None and not _is_auto(value)]
        if wrong:
            raise InvalidArgumentError(
                f"{autos[0]}='auto' takes both from the launcher, so that "
                f"{wrong[0]}={given[wrong[0]]!r} would have no effect: leave {wrong[0]} out, or "
                "give both as integers"
            )
        return
    valid = is_integer(cur_shard) and is_integer(shard_count)
    if not valid or not 0 <= cur_shard < shard_count:
        raise InvalidArgumentError(
            f"partition and num_partitions must be ints and both specified, with 0 <= cur_shard < "
            f"shard_count; found cur_shard={cur_shard!r}, shard_count={shard_count!r}"
        )
