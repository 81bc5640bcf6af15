"""Support MosaicML Streaming's own loader as ``data_loader_fn``."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Collection, Sized
from dataclasses import replace
from typing import Any

from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.sample_order import sample_order
from mdstorm.errors import NullValueError, UnsupportedArgumentError
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.display import counted
from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.read import SampleSource
from mdstorm_backend.storage import Location

_MODULE = "streaming"
#: Arguments that a genuine dataset obeys, or that have no effect on it. Of all others it knows
#: nothing but what it does anyway.
_POSSIBLE = frozenset(
    {
        "cache_extra_settings",
        "cache_location",
        "cache_row_size_estimate",
        "cache_size_limit",
        "convert_early_to_numpy",
        "cur_shard",
        "hdfs_driver",
        "num_epochs",
        "reader_pool_type",
        "results_queue_size",
        "seed",
        "shard_count",
        "shard_seed",
        "shuffle_row_groups",
        "shuffle_rows",
        "workers_count",
        "zmq_copy_buffers",
    }
)
_ANYWAY = ReaderArguments(order="elastic")


def is_mosaic_loader(function: Callable[..., Any]) -> bool:
    """Whether it is MosaicML's ``StreamingDataLoader``, a subclass, or a partial of one.

    MosaicML Streaming is not imported for that: whoever has its class has imported it.
    """
    while isinstance(function, functools.partial):
        function = function.func
    class_ = getattr(sys.modules.get(_MODULE), "StreamingDataLoader", None)
    return class_ is not None and isinstance(function, type) and issubclass(function, class_)


def make_mosaic_loader(
    function: Callable[..., Any],
    dataset: SampleSource,
    arguments: ReaderArguments,
    given: Collection[str],
    batch_size: int,
) -> Any:
    """Call `function` with a ``streaming.StreamingDataset`` over the shards of a converter.

    The samples are those that MosaicML Streaming makes of them: each iteration is one epoch, the
    rank comes from the launcher's environment, and ``shuffle_row_groups``, ``shuffle_rows`` or a
    queue capacity shuffle them. `given` are the names of the arguments that are not defaults.

    Raises
    ------
    UnsupportedArgumentError
        If something is asked for that a genuine dataset cannot do; also NotImplementedError.
    NullValueError
        If a column holds nulls other than NaN, of which it does not know.
    """
    if not isinstance(dataset, Dataset):
        raise _refused(
            f"the data at {dataset.url} are Parquet files: convert them, mdstorm convert"
        )
    if dataset.is_part:
        raise _refused(
            f"{len(dataset.file_urls)} of the shards of {dataset.url} are given, or all of them in "
            "another order: it reads whole datasets"
        )
    has_decimals = any(column.encoding == "str_decimal" for column in dataset.schema)
    _check_arguments(arguments, given, has_decimals=has_decimals)
    _check_nulls(dataset)
    elastic = sample_order(replace(arguments, order="elastic"))
    assert isinstance(elastic, ElasticShare)
    settings: dict[str, Any] = {
        "shuffle": elastic.order.shuffle,
        "shuffle_block_size": elastic.order.shuffle_block_size,
    }
    if arguments.seed is not None:  # without it MosaicML's own, on all ranks
        settings["shuffle_seed"] = elastic.order.shuffle_seed
    location = Location.of(dataset.url)
    if location.is_local_disk:
        settings["local"] = location.path
    else:
        settings["remote"] = dataset.url
    streaming = importlib.import_module(_MODULE)
    samples = streaming.StreamingDataset(batch_size=batch_size, **settings)
    return function(samples, batch_size=batch_size)


def _check_arguments(
    arguments: ReaderArguments, given: Collection[str], *, has_decimals: bool
) -> None:
    if arguments.num_epochs not in (None, 1):
        raise _refused(
            f"num_epochs={arguments.num_epochs}: each iteration over it is one epoch, iterate it "
            "as often as you want"
        )
    for name in sorted({*given} - _POSSIBLE):
        value, anyway = getattr(arguments, name), getattr(_ANYWAY, name)
        if name == "decimals" and (value == "decimal" or not has_decimals):
            continue
        if not _asks_for_nothing(value) and (type(value) is not type(anyway) or value != anyway):
            raise _refused(f"{name}={value!r}: it reads every sample as it is stored")
    if arguments.is_share and not arguments.is_auto:
        world = importlib.import_module(f"{_MODULE}.base.world").World.detect()
        if (arguments.cur_shard, arguments.shard_count) != (world.rank, world.num_ranks):
            raise _refused(
                f"cur_shard={arguments.cur_shard} of shard_count={arguments.shard_count}: it takes "
                f"its rank from the launcher's environment, which says {world.rank} of "
                f"{world.num_ranks}. Leave both out, or start it with torchrun"
            )


def _asks_for_nothing(value: object) -> bool:
    return value is None or (isinstance(value, Sized) and len(value) == 0)


def _check_nulls(dataset: Dataset) -> None:
    found = {
        column.name: column.null_count + column.element_null_count
        for column in dataset.schema
        if column.has_nulls and not column.is_floating
    }
    if found:
        held = ", ".join(
            f"column {name!r} holds {counted(count, 'null')}" for name, count in found.items()
        )
        raise NullValueError(
            f"{held}, but MosaicML Streaming does not know nulls and would deliver arbitrary "
            "values. Fill them before converting, or use another loader",
            columns=found,
        )


def _refused(reason: str) -> UnsupportedArgumentError:
    return UnsupportedArgumentError(
        f"MosaicML Streaming's StreamingDataLoader cannot do this: {reason}. Or use the default "
        "loader, or data_loader_fn=mdstorm.pytorch.DataLoader"
    )
