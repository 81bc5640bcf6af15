"""Petastorm's reader arguments and what they mean for MDS shards."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mdstorm_backend.dataset import Dataset
from mdstorm_backend.frameworks.nulls import NullPolicy
from mdstorm_backend.frameworks.reader_options import ReaderOptions
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.read.batch_reader import check_num_epochs
from mdstorm_backend.schema import Schema

from mdstorm._pandas_transform import PandasTransform
from mdstorm.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    NoMatchingFieldsError,
    UnsupportedArgumentError,
)
from mdstorm.transform import TransformSpec

__all__ = ["ReaderArguments", "check_arguments"]

_POOLS = ("thread", "process", "dummy")
_DEFAULT_WORKERS = 4

#: Arguments that have an effect.
_EFFECTIVE = {
    "cur_shard",
    "fill_nulls",
    "null_masks",
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
        if name in _NEUTRAL and value not in _NEUTRAL[name]:
            raise UnsupportedArgumentError(
                f"{method}(): {name}={value!r} has no effect in this version and is not ignored "
                "silently. Filter or select on the DataFrame before converting it, or in a "
                "transform_spec"
            )


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
        Petastorm's reader arguments, and ``fill_nulls`` and ``null_masks``.
    """

    method: str
    num_epochs: int | None
    workers_count: int | None
    shuffling_queue_capacity: int | None
    others: dict[str, Any]

    def __post_init__(self) -> None:
        check_arguments(self.method, self.others)
        check_num_epochs(self.num_epochs)
        if self.others.get("reader_pool_type", "thread") not in _POOLS:
            raise InvalidArgumentError(
                f"Unknown reader_pool_type: {self.others['reader_pool_type']}. Use one of {_POOLS}"
            )
        if self.workers_count is not None and self.workers_count < 1:
            raise InvalidArgumentError(
                f"workers_count must be at least 1 or None, found {self.workers_count}"
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
        return min(self.workers_count or _DEFAULT_WORKERS, os.cpu_count() or 1)

    def order(self) -> ExactOrder:
        """Return the order that the arguments ask for, its seed fixed."""
        if self.others.get("shard_seed") is not None:
            warnings.warn("shard_seed was deprecated: use seed", UserWarning, stacklevel=4)
        shard_count = self.shard_count
        return ExactOrder(
            seed=self.others.get("seed") or self.others.get("shard_seed"),
            shuffle_shards=bool(self.others.get("shuffle_row_groups", True)),
            shuffle_rows=bool(self.others.get("shuffle_rows", False)),
            window=max(self.shuffling_queue_capacity or 0, 0),
            rank=0 if shard_count is None else int(self.cur_shard or 0),
            world_size=1 if shard_count is None else int(shard_count),
        ).resolved()

    def options(self, dataset: Dataset, order: ExactOrder) -> ReaderOptions:
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


def select_fields(schema: Schema, fields: Any) -> Schema:
    """Return the columns that ``schema_fields`` asks for, in the order of the DataFrame.

    Parameters
    ----------
    schema : Schema
        All columns.
    fields : iterable of str or of objects with a name, or None
        Regular expressions that match whole names, or fields. None or nothing: all columns but
        nested ones, which are left out with a warning as Petastorm does it.

    Raises
    ------
    NoMatchingFieldsError
        If no column is left.
    InvalidArgumentError
        If `fields` is no such thing.
    """
    if fields is None or (isinstance(fields, (list, tuple, set)) and not fields):
        chosen = []
        for column in schema:
            if column.is_nested:
                warnings.warn(
                    f"Column {column.name!r} has an unsupported field type. Ignoring... It is kept "
                    "in the dataset; name it in schema_fields to read it",
                    UserWarning,
                    stacklevel=5,
                )
            else:
                chosen.append(column.name)
    else:
        patterns = _patterns(fields)
        chosen = [n for n in schema.names if any(re.fullmatch(p, n) for p in patterns)]
    if not chosen:
        raise NoMatchingFieldsError(
            f"No fields matching the criteria {fields!r} were found in the dataset, whose columns "
            f"are {list(schema.names)}: name at least one of them in schema_fields"
        )
    return schema.select(chosen)


def _patterns(fields: Any) -> list[str]:
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise InvalidArgumentError(
            f"Fields must be either None, an iterable of regular expressions or of fields, found "
            f"{fields!r}: put it in a list"
        )
    patterns = []
    for field in fields:
        if not isinstance(field, str) and not hasattr(field, "name"):
            raise InvalidArgumentError(
                f'Elements of "fields" must be either a string or a field with a name, found '
                f"{field!r}"
            )
        patterns.append(field if isinstance(field, str) else re.escape(field.name))
    return patterns


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
