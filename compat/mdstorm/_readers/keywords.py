"""The typed keywords of readers, and errors for unknown ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar

from mdstorm._readers.arguments import ReaderArguments
from mdstorm.errors import ArgumentTypeError
from mdstorm.predicates import PredicateBase
from mdstorm.selectors import RowGroupSelectorBase
from mdstorm.transform import TransformSpec
from mdstorm_backend.base import unknown_keyword
from mdstorm_backend.read import Decode, Size

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class AddedKeywords(TypedDict, total=False):
    """Keywords of all readers and loaders beyond Petastorm's; defaults as in `ReaderArguments`."""

    order: str
    fill_nulls: Mapping[str, Any] | None
    null_masks: Sequence[str] | None
    check_ranks: bool
    decimals: str | None
    decode: Decode | None
    size: Size | None
    max_image_bytes: int
    world: Any


class AddedReaderKeywords(AddedKeywords, total=False):
    """Keywords of `make_reader` and `make_batch_reader` beyond Petastorm's."""

    version: int | None
    timestamp: str | datetime | None


class ReaderKeywords(AddedKeywords, total=False):
    """Keywords that the methods of a converter pass on to a reader.

    Petastorm's reader arguments and some of ours, without the dataset and without the arguments
    that the methods have themselves: ``num_epochs`` and ``workers_count``. A converter knows the
    version of its table.
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


#: Names of `ReaderKeywords`.
READER_KEYWORDS = tuple(ReaderKeywords.__annotations__)

_NOT_OURS = "leave it out"
_OF_TABLES = (
    "a converter knows the version of its table: make_spark_converter(path, version=, timestamp=)"
)
#: Keywords of other loaders, and our equivalent for functions that have it.
_INSTEAD = {
    "collate_fn": ("batch_map", "a function of a batch, which returns what the model takes"),
    "pin_memory": ("device", "to which batches are copied ahead of use, such as device='cuda'"),
}
#: Keywords of other loaders, and what to use or do here.
_ELSEWHERE = {
    "batch_map": "it is for PyTorch; a dataset of TensorFlow has .map(function)",
    "batch_size": "batches are made by the loader: mdstorm.pytorch.DataLoader(reader, batch_size=)",
    "batch_sampler": "use shuffle_row_groups, shuffle_rows, cur_shard and shard_count",
    "collate_fn": (
        "change the batches as you iterate, map(function, loader), or make a loader of your own by "
        "data_loader_fn of make_torch_dataloader"
    ),
    "columns": "use schema_fields",
    "dtype": "make_spark_converter(df, dtype=) says what floating-point columns become",
    "drop_last": (
        "batches span epochs, so that only the very last one may be shorter: skip it as you iterate"
    ),
    "generator": "use seed",
    "multiprocessing_context": f"rows are read by threads of this process: {_NOT_OURS}",
    "num_workers": "use workers_count, the number of threads that read",
    "num_replicas": "use cur_shard and shard_count",
    "persistent_workers": f"rows are read by threads of this process: {_NOT_OURS}",
    "pin_memory": (
        "call pin_memory() of the tensors as you iterate, or use "
        "mdstorm_backend.StreamingDataLoader(dataset, pin_memory=True)"
    ),
    "prefetch_factor": "use results_queue_size, the results that may be ready ahead of use",
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


def signature_of(
    function: Callable[..., _Result],
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Return a decorator that calls `function` under the decorated signature and docstring.

    The decorated body never runs: `function` is called with all arguments by name, including
    defaults. The keywords beyond Petastorm's, declared as `AddedReaderKeywords`, have the defaults
    of `ReaderArguments`.
    """

    def decorate(declared: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        explicit = _explicit(signature(declared))

        @wraps(declared)
        def called(*arguments: _Arguments.args, **keywords: _Arguments.kwargs) -> _Result:
            check_keywords(declared.__name__, keywords, explicit.parameters)
            bound = explicit.bind(*arguments, **keywords)
            bound.apply_defaults()
            return function(**bound.arguments)

        called.__signature__ = explicit  # type: ignore[attr-defined]
        return called

    return decorate


def _explicit(declared: Signature) -> Signature:
    """Return a signature that lists the keywords beyond Petastorm's one by one."""
    added = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(ReaderArguments)
        if field.name in AddedReaderKeywords.__annotations__
    ]
    return declared.replace(parameters=[*list(declared.parameters.values())[:-1], *added])


def check_keywords(function: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise ArgumentTypeError for keywords that a function does not have.

    Parameters
    ----------
    function : str
        The function's name, for messages.
    given, known : collection of str
        Names of keywords.

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
                f"{function}() got multiple values for argument {name!r}: the converter knows its "
                "own dataset, leave the argument out"
            )
        raise unknown_keyword(function, name, known, _instead(name, known))


def _instead(name: str, known: Collection[str]) -> str:
    """Return the end of a message about a keyword of other loaders; empty for other keywords."""
    instead, how = _INSTEAD.get(name, ("", ""))
    if instead in known:
        return f": use {instead}, {how}"
    return f": {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
