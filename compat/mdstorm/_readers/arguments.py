"""Names and types of reader arguments, and checks of their values."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from types import NoneType
from typing import Any, Literal, TypedDict

from mdstorm._datasets.field_decoders import Floats
from mdstorm._readers.schema_fields import field_patterns
from mdstorm.cache import CacheBase, NullCache
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedArgumentError
from mdstorm.local_disk_cache import LocalDiskCache
from mdstorm.predicates import PredicateBase
from mdstorm.selectors import RowGroupSelectorBase
from mdstorm.transform import TransformSpec
from mdstorm_backend import base
from mdstorm_backend.format import MAX_IMAGE_BYTES, check_decimals, check_float_dtype
from mdstorm_backend.order import given_world
from mdstorm_backend.read import ON_CORRUPT, Decode, OnCorrupt, Size, check_decode, check_num_epochs
from mdstorm_backend.storage import check_no_secrets
from mdstorm_backend.tables import AsOf

_ORDERS = ("exact", "elastic")
_POOLS = ("thread", "process", "dummy")
#: Petastorm's default number of workers in converter methods.
DEFAULT_WORKERS = 4
_DEFAULT_RESULTS = 50


@dataclass(frozen=True, kw_only=True)
class ReaderArguments:
    """The arguments of a reader, or of a converter method that creates one.

    Names, meanings and defaults are as in `mdstorm.make_batch_reader`, with three differences:
    ``workers_count=None`` means `DEFAULT_WORKERS`, as in converter methods;
    `shuffling_queue_capacity` is the number of rows that a loader shuffles together; and
    `transform_whole_shards` makes a converter's loader call functions as readers do.

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
    transform_whole_shards: bool = False
    decode: Decode | None = None
    size: Size | None = None
    max_image_bytes: int = MAX_IMAGE_BYTES
    filters: Any = None
    storage_options: dict[str, Any] | None = None
    zmq_copy_buffers: bool = True
    filesystem: Any = None
    convert_early_to_numpy: bool = False
    order: str = "exact"
    fill_nulls: Mapping[str, Any] | None = None
    null_masks: Sequence[str] | None = ()
    check_ranks: bool = True
    on_corrupt: OnCorrupt = "raise"
    decimals: str | None = None
    dtype: Literal["float32", "float64"] | None = None
    version: int | str | None = None
    timestamp: str | datetime | None = None
    shuffling_queue_capacity: int | None = 0
    world: Any = None

    def __getstate__(self) -> dict[str, Any]:
        check_no_secrets(self.storage_options or {})
        check_no_secrets(getattr(self.filesystem, "storage_options", None) or {})
        return self.__dict__

    def __deepcopy__(self, memo: dict[int, Any]) -> ReaderArguments:
        other = object.__new__(type(self))  # a copy in this process may have the secrets
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other

    def __post_init__(self) -> None:
        if self.world is not None:
            self._take_world()
        check_num_epochs(self.num_epochs)
        base.check_integer("workers_count", self.workers_count, lowest=1)
        base.check_integer("shuffling_queue_capacity", self.shuffling_queue_capacity)
        base.check_integer("seed", self.seed, lowest=0)
        base.check_integer("shard_seed", self.shard_seed, lowest=0)
        base.check_integer("results_queue_size", self.results_queue_size, lowest=1)
        base.check_integer(
            "shuffle_row_drop_partitions", self.shuffle_row_drop_partitions, lowest=1
        )
        if self.schema_fields is not None:
            field_patterns(self.schema_fields)
        check_decode(self.decode, self.size, self.max_image_bytes)
        base.check_mapping("cache_extra_settings", self.cache_extra_settings)
        base.check_mapping("fill_nulls", self.fill_nulls)
        base.check_mapping("storage_options", self.storage_options)
        base.check_list("null_masks", self.null_masks)
        for name in ("shuffle_rows", "shuffle_row_groups", "transform_whole_shards"):
            base.check_flag(name, getattr(self, name))
        base.check_one_of(
            "reader_pool_type", self.reader_pool_type, _POOLS, shown=str(self.reader_pool_type)
        )
        base.check_one_of("order", self.order, _ORDERS)
        base.check_one_of("on_corrupt", self.on_corrupt, ON_CORRUPT)
        check_decimals(self.decimals)
        check_float_dtype(self.dtype)
        self._check_classes()
        self._check_share()
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

    def _take_world(self) -> None:
        """Convert the argument `world` to shard arguments: its rank and size."""
        if self.is_share:
            raise InvalidArgumentError(
                f"world={self.world!r} selects the share of the rows, and so do cur_shard and "
                "shard_count: pass only one of them"
            )
        world = given_world(self.world)
        given = {"cur_shard": world.rank, "shard_count": world.size, "world": None}
        for name, value in given.items():
            object.__setattr__(self, name, value)

    @property
    def as_of(self) -> AsOf:
        """The version of a Delta or Iceberg table to read."""
        return AsOf(self.version, self.timestamp)

    @property
    def floats(self) -> Floats:
        """The types that decimals and floating-point numbers are converted to."""
        return Floats(self.decimals, self.dtype)

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
    def is_elastic(self) -> bool:
        """Whether the order is elastic, as in MosaicML Streaming."""
        return self.order == "elastic"

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
        if self.is_elastic:
            raise no_cache_with("order='elastic'")
        if self.on_corrupt == "skip":
            raise no_cache_with("on_corrupt='skip'")
        return LocalDiskCache(
            self.cache_location,
            self.cache_size_limit,  # type: ignore[arg-type]  # checked by the class
            self.cache_row_size_estimate,  # type: ignore[arg-type]
            **{"cleanup": True, **(self.cache_extra_settings or {})},
        )


class AddedKeywords(TypedDict, total=False):
    """mdstorm's extra keywords for readers and loaders; defaults are as in `ReaderArguments`."""

    order: str
    fill_nulls: Mapping[str, Any] | None
    null_masks: Sequence[str] | None
    check_ranks: bool
    on_corrupt: OnCorrupt
    decimals: str | None
    dtype: Literal["float32", "float64"] | None
    decode: Decode | None
    size: Size | None
    max_image_bytes: int
    world: Any


class AddedReaderKeywords(AddedKeywords, total=False):
    """mdstorm's extra keywords for `make_reader` and `make_batch_reader`."""

    version: int | str | None
    timestamp: str | datetime | None


class ReaderKeywords(AddedKeywords, total=False):
    """Keywords that converter methods pass on to a reader.

    They are Petastorm's reader arguments and some of mdstorm's. They do not include the dataset,
    ``num_epochs`` and ``workers_count``, which are parameters of the methods themselves, or the
    table version, which the converter knows.
    """

    schema_fields: Collection[Any] | None
    reader_pool_type: str
    results_queue_size: int
    seed: int | None
    shuffle_rows: bool
    shuffle_row_groups: bool
    shuffle_row_drop_partitions: int
    predicate: PredicateBase | None
    rowgroup_selector: RowGroupSelectorBase | None
    cur_shard: int | Literal["auto"] | None
    shard_count: int | Literal["auto"] | None
    shard_seed: int | None
    cache_type: str | None
    cache_location: str | None
    cache_size_limit: int | None
    cache_row_size_estimate: int | None
    cache_extra_settings: dict[str, Any] | None
    hdfs_driver: str
    transform_spec: TransformSpec | None
    filters: Any
    storage_options: dict[str, Any] | None
    zmq_copy_buffers: bool
    filesystem: Any
    convert_early_to_numpy: bool
    transform_whole_shards: bool


#: The names in `ReaderKeywords`.
READER_KEYWORDS = tuple(ReaderKeywords.__annotations__)


def no_cache_with(other: str) -> UnsupportedArgumentError:
    """Return the error for an argument that a local disk cache does not support."""
    return UnsupportedArgumentError(
        f"Local cache is not supported together with {other}: leave out one of them"
    )


def check_reader(reader: object) -> None:
    """Raise ArgumentTypeError if `reader` is a path, or neither a reader nor an iterable."""
    if hasattr(reader, "batched_output"):  # includes the mock readers that tests pass
        return
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
    is_elastic: bool = False,
    may_add_rows: bool = False,
) -> int:
    """Return the number of rows per batch.

    Parameters
    ----------
    batch_size : int or None
        The requested size; None, 0 or a negative size means all rows of all epochs.
    num_epochs : int or None
        Passes over the data; None means infinite.
    dataset_size : int
        Rows per epoch.
    is_elastic : bool
        Whether the order is elastic, so that no batch spans epochs.
    may_add_rows : bool
        Whether a transform may add rows.

    Raises
    ------
    InvalidArgumentError
        If `batch_size` is not an integer, or requests all rows of infinitely many epochs.
    """
    base.check_integer("batch_size", batch_size)
    if batch_size and batch_size > 0:
        return int(batch_size)
    if num_epochs is None:
        raise InvalidArgumentError(
            f"batch_size={batch_size!r} puts all rows into one batch, which never ends with "
            "num_epochs=None: pass a batch_size, or a number of epochs"
        )
    if is_elastic:
        return max(dataset_size, 1)
    return sys.maxsize if may_add_rows else max(dataset_size * num_epochs, 1)


_NOT_OURS = "leave it out"
_OF_TABLES = (
    "a converter knows the version of its table: make_spark_converter(path, version=, timestamp=)"
)
#: Keywords of other loaders, and mdstorm's equivalents, which only some functions accept.
_INSTEAD = {
    "collate_fn": ("batch_map", "a function that turns a batch into the model's inputs"),
    "pin_memory": ("device", "to which batches are copied ahead of use, such as device='cuda'"),
}
#: Keywords of other loaders, and what to do instead in mdstorm.
_ELSEWHERE = {
    "batch_map": "it is for PyTorch; a TensorFlow dataset has .map(function)",
    "batch_size": "batches are made by the loader: mdstorm.pytorch.DataLoader(reader, batch_size=)",
    "batch_sampler": "use shuffle_row_groups, shuffle_rows, cur_shard and shard_count",
    "collate_fn": (
        "change the batches as you iterate, map(function, loader), or create your own loader with "
        "make_torch_dataloader(data_loader_fn=…)"
    ),
    "columns": "use schema_fields",
    "drop_last": ("only the last batch of a pass can be shorter, so skip it in your loop"),
    "generator": "use seed",
    "multiprocessing_context": f"rows are read by threads of this process: {_NOT_OURS}",
    "num_workers": "use workers_count, the number of threads that read",
    "num_replicas": "use cur_shard and shard_count",
    "persistent_workers": f"rows are read by threads of this process: {_NOT_OURS}",
    "pin_memory": (
        "call the tensors' pin_memory() as you iterate, or use "
        "mdstorm_backend.StreamingDataLoader(dataset, pin_memory=True)"
    ),
    "prefetch_factor": "use results_queue_size, the number of results to prefetch",
    "rank": "use cur_shard and shard_count",
    "sampler": "use shuffle_row_groups, shuffle_rows, cur_shard and shard_count",
    "shuffle": "use shuffle_rows, shuffle_row_groups or shuffling_queue_capacity",
    "shuffling_queue_capacity": (
        "rows are shuffled by the loader: "
        "mdstorm.pytorch.DataLoader(reader, shuffling_queue_capacity=), or use shuffle_rows"
    ),
    "timestamp": _OF_TABLES,
    "timeout": f"rows are read by threads of this process: {_NOT_OURS}",
    "version": _OF_TABLES,
    "worker_init_fn": f"rows are read by threads of this process: {_NOT_OURS}",
    "world_size": "use cur_shard and shard_count",
}


def check_keywords(function: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise ArgumentTypeError for keywords that a function does not accept.

    Parameters
    ----------
    function : str
        The function's name, for messages.
    given, known : collection of str
        Keywords that were passed, and keywords that the function accepts.

    Raises
    ------
    ArgumentTypeError
        If a keyword is unknown; also a TypeError.
    """
    for name in given:
        if name in known:
            continue
        if name in ("dataset_url_or_urls", "dataset_url"):
            raise ArgumentTypeError(
                f"{function}() got multiple values for argument {name!r}: the converter reads its "
                "own dataset, so leave the argument out"
            )
        raise base.unknown_keyword(function, name, known, _instead(name, known))


def _instead(name: str, known: Collection[str]) -> str:
    """Return the end of the message about an unknown keyword; empty if no other loader has it."""
    instead, how = _INSTEAD.get(name, ("", ""))
    if instead in known:
        return f": use {instead}, {how}"
    return f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
