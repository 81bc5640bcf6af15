"""The arguments of a reader or loader, and checks of their values."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass, fields
from os import PathLike
from types import NoneType
from typing import Any, Literal

from mdstorm._datasets import Floats
from mdstorm._readers.keywords import AllAddedKeywords
from mdstorm._readers.schema_fields import field_patterns
from mdstorm.cache import CacheBase, NullCache
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedArgumentError
from mdstorm.local_disk_cache import LocalDiskCache
from mdstorm.predicates import PredicateBase
from mdstorm.selectors import RowGroupSelectorBase
from mdstorm.transform import TransformSpec
from mdstorm_backend import base
from mdstorm_backend.order import Order, Weighting, given_world, order_named
from mdstorm_backend.read import check_decode, check_num_epochs
from mdstorm_backend.storage import check_no_secrets
from mdstorm_backend.tables import AsOf

_POOLS = ("thread", "process", "dummy")
#: Petastorm's default number of workers in converter methods.
DEFAULT_WORKERS = 4
_DEFAULT_RESULTS = 50


@dataclass(frozen=True, kw_only=True)
class ReaderArguments:
    """The arguments of a reader, or of a converter method that creates one.

    Petastorm's arguments are attributes, and mdstorm's are the items of `added`: see `of`. Names,
    meanings and defaults are as in `mdstorm.make_batch_reader`, with two differences:
    ``workers_count=None`` means `DEFAULT_WORKERS`, as in converter methods, and
    `shuffling_queue_capacity` is the number of rows that a loader shuffles together.

    Raises
    ------
    ArgumentTypeError
        If an argument has the wrong type; also a TypeError.
    InvalidArgumentError
        If an argument has an invalid value; also a ValueError.
    NoMatchingFieldsError
        If `schema_fields` is a single string; also a RuntimeError.
    UnsupportedArgumentError
        If the cache cannot be combined with other arguments; also a NotImplementedError.
    """

    schema_fields: Collection[Any] | None = None
    reader_pool_type: str = "thread"
    workers_count: int | None = 10
    results_queue_size: int = _DEFAULT_RESULTS
    seed: int | None = None
    shuffle_rows: bool = False
    shuffle_row_groups: bool = True
    shuffle_row_drop_partitions: int = 1
    predicate: PredicateBase | None = None
    rowgroup_selector: RowGroupSelectorBase | None = None
    num_epochs: int | None = 1
    cur_shard: int | Literal["auto"] | None = None
    shard_count: int | Literal["auto"] | None = None
    shard_seed: int | None = None
    cache_type: str | None = "null"
    cache_location: str | None = None
    cache_size_limit: int | None = None
    cache_row_size_estimate: int | None = None
    cache_extra_settings: dict[str, Any] | None = None
    hdfs_driver: str = "libhdfs3"
    transform_spec: TransformSpec | None = None
    filters: Any = None
    storage_options: dict[str, Any] | None = None
    zmq_copy_buffers: bool = True
    filesystem: Any = None
    convert_early_to_numpy: bool = False
    shuffling_queue_capacity: int | None = 0
    added: AllAddedKeywords

    @classmethod
    def of(cls, **given: Any) -> ReaderArguments:
        """Return arguments in which mdstorm's, given or by default, are in `added`."""
        own = base.declared(AllAddedKeywords)
        added: Any = {name: given.pop(name, one.default) for name, one in own.items()}
        return cls(**given, added=added)

    def __getstate__(self) -> dict[str, Any]:
        check_no_secrets(self.storage_options or {})
        check_no_secrets(getattr(self.filesystem, "storage_options", None) or {})
        return self.__dict__

    def __deepcopy__(self, memo: dict[int, Any]) -> ReaderArguments:
        other = object.__new__(type(self))  # a copy in this process may have the secrets
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other

    def __post_init__(self) -> None:
        if self.added["world"] is not None:
            self._take_world(self.added["world"])
        check_num_epochs(self.num_epochs)
        base.check_integer("workers_count", self.workers_count, lowest=1)
        base.check_integer("shuffling_queue_capacity", self.shuffling_queue_capacity)
        base.check_integer("seed", self.seed, lowest=0)
        base.check_integer("shard_seed", self.shard_seed, lowest=0)
        base.check_integer("results_queue_size", self.results_queue_size, lowest=1)
        base.check_required_integer(
            "shuffle_row_drop_partitions", self.shuffle_row_drop_partitions, 1
        )
        if self.schema_fields is not None:
            field_patterns(self.schema_fields)
        for name, argument in base.declared(AllAddedKeywords).items():
            argument.check(name, self.added[name])  # type: ignore[literal-required]
        check_decode(self.added["decode"], self.added["size"], self.added["max_image_bytes"])
        base.check_mapping("cache_extra_settings", self.cache_extra_settings)
        base.check_mapping("storage_options", self.storage_options)
        for name in ("shuffle_rows", "shuffle_row_groups"):
            base.check_flag(name, getattr(self, name))
        base.check_one_of(
            "reader_pool_type", self.reader_pool_type, _POOLS, shown=str(self.reader_pool_type)
        )
        self._check_classes()
        self._check_share()
        for name in ("predicate", "rowgroup_selector", "filters"):
            if getattr(self, name) is not None:
                self.check_no_chosen_rows(f"{name}=")
        _ = self.as_of, self.cache  # reading these properties checks their arguments

    def _check_classes(self) -> None:
        if not isinstance(self.transform_spec, (TransformSpec, NoneType)):
            raise ArgumentTypeError(
                "transform_spec must be a TransformSpec, found "
                f"{type(self.transform_spec).__name__}: wrap the function, TransformSpec(function)"
            )
        if not isinstance(self.rowgroup_selector, (RowGroupSelectorBase, NoneType)):
            raise InvalidArgumentError(
                "rowgroup_selector parameter is expected to be derived from RowGroupSelectorBase, "
                f"found {self.rowgroup_selector!r}: use one of mdstorm.selectors"
            )
        if not isinstance(self.predicate, (PredicateBase, NoneType)):
            raise InvalidArgumentError(
                "predicate parameter is expected to be derived from PredicateBase, found "
                f"{self.predicate!r}: wrap a function in mdstorm.predicates.in_lambda"
            )

    def _check_share(self) -> None:
        """Raise InvalidArgumentError if the shard arguments are not a valid combination.

        Both may be None, or a valid rank and count. If one is "auto", the other may be None.
        """
        rank, count = self.cur_shard, self.shard_count
        given = {"cur_shard": rank, "shard_count": count}
        given = {name: value for name, value in given.items() if value is not None}
        wrong = [name for name, value in given.items() if not _is_auto(value)]
        if self.is_auto and wrong:
            (auto,) = given.keys() - wrong
            raise InvalidArgumentError(
                f"{auto}='auto' takes both from the launcher, so {wrong[0]}={given[wrong[0]]!r} "
                f"would have no effect: leave {wrong[0]} out, or pass both as integers"
            )
        if wrong and not (base.is_integer(rank) and base.is_integer(count) and 0 <= rank < count):
            raise InvalidArgumentError(
                "cur_shard and shard_count must be ints and both specified, with "
                f"0 <= cur_shard < shard_count: found cur_shard={rank!r} and "
                f"shard_count={count!r}. Pass both, or cur_shard='auto' for the launcher's values"
            )

    def check_no_chosen_rows(self, other: str) -> None:
        """Raise UnsupportedArgumentError if rows are chosen, since `other` may leave some out."""
        for name in ("rows", "where", "weights", "balance", "epoch_size"):
            if self.added[name] is not None:
                raise UnsupportedArgumentError(
                    f"{name}= states the rows of an epoch, and {other} could leave some of them "
                    "out: put all conditions into where=, or leave out one of the arguments"
                )

    def _take_world(self, given: Any) -> None:
        """Convert the argument `world` to shard arguments: its rank and size."""
        if self.is_share:
            raise InvalidArgumentError(
                f"world={given!r} selects the share of the rows, and so do cur_shard and "
                "shard_count: pass only one of them"
            )
        world = given_world(given)
        share = {"cur_shard": world.rank, "shard_count": world.size}
        for name, value in {**share, "added": {**self.added, "world": None}}.items():
            object.__setattr__(self, name, value)

    @property
    def as_of(self) -> AsOf:
        """The version of a Delta or Iceberg table to read."""
        return AsOf(self.added["version"], self.added["timestamp"])

    @property
    def floats(self) -> Floats:
        """The types that decimals and floating-point numbers are converted to."""
        return Floats(self.added["decimals"], self.added["dtype"])

    @property
    def is_auto(self) -> bool:
        """Whether the launcher provides rank and world size when a pass begins."""
        return _is_auto(self.cur_shard) or _is_auto(self.shard_count)

    @property
    def is_share(self) -> bool:
        """Whether any shard argument was passed."""
        return self.cur_shard is not None or self.shard_count is not None

    @property
    def workers(self) -> int:
        """Number of reading threads."""
        if self.reader_pool_type == "dummy":
            return 0
        return min(int(self.workers_count or DEFAULT_WORKERS), os.cpu_count() or 1)

    @property
    def prefetch(self) -> int:
        """Number of results to prefetch, limited to what keeps all workers busy."""
        return max(min(int(self.results_queue_size or _DEFAULT_RESULTS), self.workers + 2), 1)

    @property
    def weighting(self) -> Weighting | None:
        """How often each row is drawn; None if each is read once per epoch."""
        added = self.added
        return Weighting.of(added["weights"], added["balance"], added["epoch_size"])

    def order(self, seed: int | None) -> Order:
        """Return the order in which rows are read, with a seed but without a share."""
        shards, rows = bool(self.shuffle_row_groups), bool(self.shuffle_rows)
        queue = max(int(self.shuffling_queue_capacity or 0), 0)
        order = order_named(self.added["order"]).of_reader(seed, shards, rows, queue)
        return order if self.weighting is None else order.weighted(self.weighting)

    @base.cached_property
    def kind_of_order(self) -> Order:
        """The order in which rows are read, without a seed."""
        return self.order(None)

    @base.cached_property
    def cache(self) -> CacheBase:
        """The cache selected by the arguments.

        Raises
        ------
        InvalidArgumentError
            If the cache type is unknown, or one of the cache's arguments is invalid.
        UnsupportedArgumentError
            If the cache cannot be combined with other arguments.
        """
        if self.cache_type in (None, "null"):
            return NullCache()
        if self.cache_type != "local-disk":
            raise InvalidArgumentError(
                f"Unknown cache_type: {self.cache_type}. Use 'null', None or 'local-disk'"
            )
        if self.shuffle_row_drop_partitions != 1:
            raise no_cache_with("shuffle_row_drop_partitions > 1")
        if not self.kind_of_order.reads_parts:
            weighting = self.weighting
            given = f"order={self.added['order']!r}" if weighting is None else weighting.argument
            raise no_cache_with(given)
        if self.added["on_corrupt"] == "skip":
            raise no_cache_with("on_corrupt='skip'")
        if self.added["files"]:  # the cache would not see that a file has changed
            raise no_cache_with(f"files={self.added['files']!r}")
        return LocalDiskCache(
            self.cache_location,
            self.cache_size_limit,  # type: ignore[arg-type]  # checked by the class
            self.cache_row_size_estimate,  # type: ignore[arg-type]
            **{"cleanup": True, **(self.cache_extra_settings or {})},
        )


#: The defaults of Petastorm's arguments.
DEFAULTS = {field.name: field.default for field in fields(ReaderArguments)}


def no_cache_with(other: str) -> UnsupportedArgumentError:
    """Return the error for an argument that a local disk cache does not support."""
    return UnsupportedArgumentError(
        f"Local cache is not supported together with {other}: leave out one of them"
    )


def check_reader(reader: object) -> None:
    """Raise ArgumentTypeError if `reader` is a path, a loader, or not even an iterable."""
    if hasattr(reader, "batched_output"):  # includes the mock readers that tests pass
        return
    if hasattr(reader, "_mdstorm_loop"):
        raise ArgumentTypeError(
            f"{type(reader).__name__} is not a reader, but yields batches: iterate over it without "
            "another loader. For TensorFlow, use make_tf_dataset of the converter"
        )
    if isinstance(reader, (str, PathLike)) or not {"__iter__", "__next__"} & {*dir(reader)}:
        raise ArgumentTypeError(
            f"{reader!r} is not a reader: create one with make_reader(url) or "
            "make_batch_reader(url); a converter has make_torch_dataloader and make_tf_dataset"
        )


def _is_auto(shard: object) -> bool:
    """Whether a shard argument is ``"auto"``, which means that the launcher provides it."""
    return isinstance(shard, str) and shard == "auto"


def rows_of_batch(
    batch_size: int | None,
    *,
    num_epochs: int | None,
    dataset_size: int,
    spans_epochs: bool = True,
    may_add_rows: bool = False,
) -> int:
    """Return the number of rows per batch.

    Parameters
    ----------
    batch_size : int or None
        The requested size; None means all rows of all epochs.
    num_epochs : int or None
        Passes over the data; None means infinite.
    dataset_size : int
        Rows per epoch.
    spans_epochs : bool
        Whether a batch may have rows of several epochs.
    may_add_rows : bool
        Whether a transform may add rows.

    Raises
    ------
    InvalidArgumentError
        If `batch_size` is not a positive integer, or requests all rows of infinitely many epochs.
    """
    base.check_integer("batch_size", batch_size, lowest=1)
    if batch_size is not None:
        return int(batch_size)
    if num_epochs is None:
        raise InvalidArgumentError(
            f"batch_size={batch_size!r} puts all rows into one batch, which never ends with "
            "num_epochs=None: pass a batch_size, or a number of epochs"
        )
    if not spans_epochs:
        return max(dataset_size, 1)
    return sys.maxsize if may_add_rows else max(dataset_size * num_epochs, 1)
