"""Petastorm's reader arguments and what they mean for MDS shards."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

from mdstorm._pandas_transform import PandasTransform
from mdstorm.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    UnsupportedArgumentError,
)
from mdstorm.spark._fields import field_patterns, select_fields
from mdstorm.transform import TransformSpec
from mdstorm_backend.dataset import Dataset
from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.frameworks.elastic_share import ElasticShare
from mdstorm_backend.frameworks.nulls import NullPolicy
from mdstorm_backend.frameworks.reader_options import ReaderOptions
from mdstorm_backend.integers import is_integer
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.read.batch_reader import check_num_epochs
from mdstorm_backend.user_warnings import warn_user
from mdstorm_backend.world import World

__all__ = ["DEFAULT_WORKERS", "ReaderArguments", "check_arguments", "check_integer"]

_ORDERS = ("exact", "elastic")
_POOLS = ("thread", "process", "dummy")
#: Petastorm's number of readers.
DEFAULT_WORKERS = 4

#: Arguments that have an effect.
_EFFECTIVE = {
    "cur_shard",
    "fill_nulls",
    "null_masks",
    "order",
    "reader_pool_type",
    "schema_fields",
    "seed",
    "shard_count",
    "shard_seed",
    "shuffle_row_groups",
    "shuffle_rows",
    "transform_spec",
}
#: Arguments that tune what does not exist here: accepted with any value.
_WITHOUT_OBJECT = {
    "cache_extra_settings",
    "cache_location",
    "cache_row_size_estimate",
    "cache_size_limit",
    "convert_early_to_numpy",
    "hdfs_driver",
    "results_queue_size",
    "zmq_copy_buffers",
}
#: Arguments that would change the result: accepted with these values only.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "cache_type": (None, "null"),
    "filesystem": (None,),
    "filters": (None,),
    "predicate": (None,),
    "rowgroup_selector": (None,),
    "shuffle_row_drop_partitions": (1,),
    "storage_options": (None,),
}


def check_arguments(method: str, arguments: Mapping[str, Any]) -> None:
    """Refuse reader arguments that Petastorm does not know or that have no effect here yet.

    Raises
    ------
    ArgumentTypeError
        If one is unknown.
    UnsupportedArgumentError
        If one has a value that would be ignored.
    """
    for name, value in arguments.items():
        if name in ("dataset_url_or_urls", "dataset_url"):
            raise ArgumentTypeError(
                f"{method}() got multiple values for argument {name!r}: the converter knows its "
                "own dataset, leave the argument out"
            )
        if name not in {*_EFFECTIVE, *_WITHOUT_OBJECT, *_NEUTRAL}:
            raise ArgumentTypeError(
                f"{method}() got an unexpected keyword argument {name!r}. Reader arguments are "
                f"{', '.join(sorted({*_EFFECTIVE, *_WITHOUT_OBJECT, *_NEUTRAL}))}"
            )
        if name in _NEUTRAL and not any(value is v or _equal(value, v) for v in _NEUTRAL[name]):
            raise UnsupportedArgumentError(
                f"{method}(): {name}={value!r} has no effect in this version and is not ignored "
                "silently. Filter or select on the DataFrame before converting it, or in a "
                "transform_spec"
            )


def _equal(value: Any, neutral: Any) -> bool:
    return type(value) is type(neutral) and bool(value == neutral)


@dataclass(frozen=True)
class ReaderArguments:
    """The arguments of one ``make_torch_dataloader`` or ``make_tf_dataset``, checked.

    Attributes
    ----------
    method : str
        Which of the two, for messages.
    num_epochs, workers_count, shuffling_queue_capacity
        The arguments of the method itself.
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
        _check_shapes(self.others)
        if self.others.get("reader_pool_type", "thread") not in _POOLS:
            raise InvalidArgumentError(
                f"Unknown reader_pool_type: {self.others['reader_pool_type']}. Use one of {_POOLS}"
            )
        if self.others.get("order", "exact") not in _ORDERS:
            raise InvalidArgumentError(
                f"Unknown order: {self.others['order']!r}. Use one of {_ORDERS}"
            )
        spec = self.others.get("transform_spec")
        if spec is not None and not isinstance(spec, TransformSpec):
            raise ArgumentTypeError(
                f"transform_spec must be a TransformSpec, found {type(spec).__name__}: wrap the "
                "function, TransformSpec(function)"
            )
        _check_shard(self.cur_shard, self.shard_count)

    @property
    def cur_shard(self) -> int | None:
        """Rank, if given."""
        return self.others.get("cur_shard")

    @property
    def shard_count(self) -> int | None:
        """World size, if given."""
        return self.others.get("shard_count")

    @property
    def workers(self) -> int:
        """Threads that read."""
        if self.others.get("reader_pool_type") == "dummy":
            return 0
        return min(int(self.workers_count or DEFAULT_WORKERS), os.cpu_count() or 1)

    @property
    def is_elastic(self) -> bool:
        """Whether the order is the elastic one, MosaicML Streaming's."""
        return self.others.get("order") == "elastic"

    def order(self) -> ExactOrder | ElasticShare:
        """Return the order that the arguments ask for, its seed fixed."""
        if self.others.get("shard_seed") is not None:
            warn_user("shard_seed was deprecated: use seed")
        seed = int(self.others.get("seed") or self.others.get("shard_seed") or 0)
        shuffle_shards = bool(self.others.get("shuffle_row_groups", True))
        shuffle_rows = bool(self.others.get("shuffle_rows", False))
        window = max(int(self.shuffling_queue_capacity or 0), 0)
        shard_count = self.shard_count
        rank = 0 if shard_count is None else int(self.cur_shard or 0)
        world_size = 1 if shard_count is None else int(shard_count)
        if not self.is_elastic:
            return ExactOrder(
                seed, shuffle_shards, shuffle_rows, window, rank, world_size
            ).resolved()
        order = ElasticOrder(
            batch_size=1,  # that of the loader takes its place
            shuffle=shuffle_shards or shuffle_rows or window > 0,
            shuffle_seed=seed or secrets.randbits(32) | 1,
            shuffle_block_size=window if window > 1 else None,
        )
        return ElasticShare(order, World(rank, world_size), states_batch_size=False)

    def options(self, dataset: Dataset, order: ExactOrder | ElasticShare) -> ReaderOptions:
        """Return how to read `dataset`."""
        schema = select_fields(dataset.schema, self.others.get("schema_fields"))
        masks = tuple(self.others.get("null_masks") or ())
        fill = self.others.get("fill_nulls")
        spec = self.others.get("transform_spec")
        names = NullPolicy(schema, fill, masks).columns
        return ReaderOptions(
            dataset,
            order,
            columns=schema.names,
            num_epochs=self.num_epochs,
            transform=None if spec is None else PandasTransform(spec, schema, names),
            fill_nulls=fill,
            null_masks=masks,
            workers=self.workers,
        )


def check_integer(name: str, value: Any, *, lowest: int | None = None) -> None:
    """Raise InvalidArgumentError unless `value` is None or an integer of at least `lowest`."""
    if value is not None and not (is_integer(value) and (lowest is None or value >= lowest)):
        bound = "" if lowest is None else f" of at least {lowest}"
        raise InvalidArgumentError(f"{name} must be an integer{bound} or None, found {value!r}")


def _check_shapes(others: Mapping[str, Any]) -> None:
    """Check what does not depend on the columns."""
    if others.get("schema_fields") is not None:
        field_patterns(others["schema_fields"])
    fill, masks = others.get("fill_nulls"), others.get("null_masks")
    if fill is not None and not isinstance(fill, Mapping):
        raise ArgumentTypeError(f"fill_nulls must be a dict from column to value, found {fill!r}")
    if isinstance(masks, str) or not isinstance(masks, (Sequence, NoneType)):
        raise ArgumentTypeError(f"null_masks must be a list of columns, found {masks!r}")


def _check_shard(cur_shard: Any, shard_count: Any) -> None:
    if cur_shard is None and shard_count is None:
        return
    try:
        valid = int(cur_shard) == cur_shard and int(shard_count) == shard_count > 0
    except (TypeError, ValueError):
        valid = False
    if not valid or not 0 <= cur_shard < shard_count:
        raise InvalidArgumentError(
            f"partition and num_partitions must be ints and both specified, with 0 <= cur_shard < "
            f"shard_count; found cur_shard={cur_shard!r}, shard_count={shard_count!r}"
        )
