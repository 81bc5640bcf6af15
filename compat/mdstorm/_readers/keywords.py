"""The keywords that functions accept beyond Petastorm's positional arguments.

A keyword of mdstorm is declared once, as a key of a TypedDict whose type is ``Annotated`` with an
`Argument`. The engine declares the keywords that it also has. Checks, signatures, docstrings and
the error for unknown keywords come from these declarations, and ``scripts/write_parameters.py``
writes the names for `mdstorm_migrate`.

A keyword takes effect in `mdstorm._readers.options`. If it chooses rows, states have to compare it:
as a field of `Conditions`, or by the fingerprint of a `ShardView`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import wraps
from inspect import Parameter, cleandoc, signature
from typing import Annotated, Any, Literal, ParamSpec, TypedDict, TypeVar, get_type_hints

from mdstorm.errors import ArgumentTypeError
from mdstorm.predicates import PredicateBase
from mdstorm.selectors import RowGroupSelectorBase
from mdstorm.transform import TransformSpec
from mdstorm_backend import base
from mdstorm_backend.base import Argument, declared
from mdstorm_backend.format import check_decimals, check_float_dtype
from mdstorm_backend.loaders import arguments
from mdstorm_backend.order import check_epoch_size, order_named

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class AddedKeywords(TypedDict, total=False):
    """mdstorm's keywords for readers, and for a converter's loaders and datasets."""

    order: Annotated[
        str,
        Argument(
            "exact",
            """{"exact", "elastic"}
            ``exact`` yields every row once per epoch across all ranks. ``elastic`` yields rows in
            MosaicML Streaming's order. A reader's batches then have as many rows as the largest
            shard. A converter's batches do not span epochs, and a transform gets one at a time.
            """,
            lambda _, value: order_named(value),
        ),
    ]
    fill_nulls: arguments.FillNulls
    null_masks: arguments.NullMasks
    check_ranks: arguments.CheckRanks
    on_corrupt: arguments.OnCorrupt
    decimals: Annotated[
        Literal["float64", "float32", "decimal"] | None,
        Argument(
            None,
            """{"float64", "float32", "decimal"}, optional
            Type to which decimals are converted. ``"float64"`` and ``"float32"`` return the nearest
            floating-point numbers, including in filters, predicates and functions; arrays of
            decimals become numeric arrays. By default, decimals stay `Decimal`. They become lists
            in PyTorch and text in TensorFlow, and loaders over the reader issue a warning.
            ``"decimal"`` does the same without the warning.
            """,
            lambda _, value: check_decimals(value),
        ),
    ]
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        Argument(
            None,
            """{"float32", "float64"}, optional
            Type to which floating-point scalars and arrays are converted, including in filters,
            predicates and functions. By default, they keep their stored types.
            """,
            lambda _, value: check_float_dtype(value),
        ),
    ]
    decode: arguments.Decode
    size: arguments.Size
    max_image_bytes: arguments.MaxImageBytes
    world: Annotated[
        Any,
        Argument(
            None,
            """(int, int) or DeviceMesh, optional
            Rank and number of ranks, instead of `cur_shard` and `shard_count`. For a mesh, they are
            those along its dimension for data.
            """,
        ),
    ]
    rows: arguments.Rows
    where: arguments.Where
    weights: arguments.Weights
    balance: arguments.Balance
    epoch_size: Annotated[
        int | None,
        Argument(
            None,
            """int, optional
            Number of rows in an epoch over all ranks, by default as many as there are. Which rows
            these are is drawn for each epoch, equally often without `weights` and `balance`.
            """,
            check_epoch_size,
        ),
    ]
    row_numbers: arguments.RowNumbers
    files: arguments.Files
    files_below: arguments.FilesBelow
    max_file_bytes: arguments.MaxFileBytes


class AddedReaderKeywords(AddedKeywords, total=False):
    """mdstorm's keywords for `make_reader` and `make_batch_reader`.

    Those declared here choose what a URL opens, which a converter already knows.
    """

    version: Annotated[
        int | str | None,
        Argument(
            None,
            """int or str, optional
            Version of a Delta table to read, or the snapshot id, branch or tag of an Iceberg table.
            The default is the latest version when the reader is created.
            """,
        ),
    ]
    timestamp: Annotated[
        str | datetime | None,
        Argument(
            None,
            """str or datetime.datetime, optional
            Read the table version that was the latest at this time, in UTC unless it has an offset,
            as in ``"2024-05-31T12:00:00+02:00"``.
            """,
        ),
    ]


class AddedConverterKeywords(AddedKeywords, total=False):
    """mdstorm's keywords for a converter's loaders and datasets."""

    transform_whole_shards: Annotated[
        bool,
        Argument(
            False,
            """bool
            Whether `transform_spec`'s function is called with whole shards, rather than with slices
            of them.
            """,
            base.check_flag,
        ),
    ]


class AllAddedKeywords(AddedReaderKeywords, AddedConverterKeywords, total=False):
    """All of mdstorm's keywords."""


class ReaderKeywords(AddedConverterKeywords, total=False):
    """Keywords that converter methods pass on to a reader.

    They are Petastorm's reader arguments and mdstorm's. They do not include the dataset,
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


def accepts(
    keywords: type, defaults: Mapping[str, Any] | None = None
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Return a decorator for a function that accepts the keywords of a TypedDict as ``**kwargs``.

    The function can be called inside TensorFlow's functions. Other keywords raise an
    ArgumentTypeError with the nearest name. ``inspect.signature`` and ``help`` show the keywords
    instead of ``**kwargs``, and the docstring describes mdstorm's.

    Parameters
    ----------
    keywords : type
        The TypedDict.
    defaults : mapping, optional
        Default values of Petastorm's keywords.
    """
    added = declared(keywords)
    values = {**(defaults or {}), **{name: one.default for name, one in added.items()}}
    entries = "\n".join(one.entry(name) for name, one in added.items())

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        stated = signature(function)
        plain = [one for one in stated.parameters.values() if one.kind is not one.VAR_KEYWORD]
        keyword_only = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=values[name], annotation=type_)
            for name, type_ in get_type_hints(keywords).items()
        ]
        explicit = stated.replace(parameters=[*plain, *keyword_only])
        known = explicit.parameters.keys() - {"self"}

        @wraps(function)
        def called(*arguments: _Arguments.args, **given: _Arguments.kwargs) -> _Result:
            check_keywords(function.__name__, given, known)
            return function(*arguments, **given)

        called.__signature__ = explicit  # type: ignore[attr-defined]
        # TensorFlow's AutoGraph does not rewrite functions with this attribute. It would also
        # rewrite what they call, which takes seconds.
        called.autograph_info__ = None  # type: ignore[attr-defined]
        if function.__doc__:  # not with python -OO
            text = cleandoc(function.__doc__)
            headings = (f"\n\n{name}\n" for name in ("Other Parameters", "Returns"))
            before, heading, after = text.partition(next(one for one in headings if one in text))
            called.__doc__ = f"{before}\n{entries}{heading}{after}"
        return called

    return decorate


_NOT_OURS = "leave it out"
_OF_TABLES = (
    "a converter knows the version of its table: make_spark_converter(path, version=, timestamp=)"
)
#: The first argument of the readers.
_URLS = {"dataset_url", "dataset_url_or_urls"}
#: Keywords of other functions, and their equivalents, which only some functions accept.
_INSTEAD = {
    "dataset_url": ("dataset_url_or_urls", "the name of make_batch_reader's first argument"),
    "dataset_url_or_urls": ("dataset_url", "the name of make_reader's first argument"),
    "batch": ("batch_size", "the number of rows in a batch"),
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
    "device": "it is for a converter's PyTorch loader; TensorFlow copies tensors to devices itself",
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
    "skip_batches": "pass it to the loader's load_state_dict(state, skip_batches=)",
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
        if name in _URLS and _URLS.isdisjoint(known):
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
