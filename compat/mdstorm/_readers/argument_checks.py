"""Checks of single arguments."""

from __future__ import annotations

from os import PathLike
from types import NoneType

from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm.predicates import PredicateBase
from mdstorm.selectors import RowGroupSelectorBase
from mdstorm.transform import TransformSpec
from mdstorm_backend.base import is_integer


def check_reader(reader: object) -> None:
    """Raise ArgumentTypeError unless `reader` can be iterated over, and is no place."""
    if isinstance(reader, (str, PathLike)) or not {"__iter__", "__next__"} & {*dir(reader)}:
        raise ArgumentTypeError(
            f"{reader!r} is not a reader: create one with make_reader(url) or "
            "make_batch_reader(url); a converter has make_torch_dataloader and make_tf_dataset"
        )


def check_transform(spec: object) -> None:
    """Raise ArgumentTypeError unless `spec` is None or a TransformSpec."""
    if not isinstance(spec, (TransformSpec, NoneType)):
        raise ArgumentTypeError(
            f"transform_spec must be a TransformSpec, found {type(spec).__name__}: wrap the "
            "function, TransformSpec(function)"
        )


def check_selector(selector: object) -> None:
    """Raise InvalidArgumentError unless `selector` is None or a selector of row groups."""
    if not isinstance(selector, (RowGroupSelectorBase, NoneType)):
        raise InvalidArgumentError(
            "rowgroup_selector parameter is expected to be derived from RowGroupSelectorBase, "
            f"found {selector!r}: use one of mdstorm.selectors"
        )


def check_predicate(predicate: object) -> None:
    """Raise InvalidArgumentError unless `predicate` is None or a predicate."""
    if not isinstance(predicate, (PredicateBase, NoneType)):
        raise InvalidArgumentError(
            f"predicate parameter is expected to be derived from PredicateBase, found "
            f"{predicate!r}: wrap a function in mdstorm.predicates.in_lambda"
        )


def is_auto(shard: object) -> bool:
    """Whether a shard argument is to be that of the launcher."""
    return isinstance(shard, str) and shard == "auto"


def check_share(cur_shard: object, shard_count: object) -> None:
    """Raise InvalidArgumentError unless both are None, number a share of the rows, or are "auto".

    Either may be left out beside "auto".
    """
    given = {"cur_shard": cur_shard, "shard_count": shard_count}
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        return
    autos = [name for name, value in given.items() if is_auto(value)]
    if autos:
        if wrong := [name for name in given if name not in autos]:
            raise InvalidArgumentError(
                f"{autos[0]}='auto' takes both from the launcher, so "
                f"{wrong[0]}={given[wrong[0]]!r} would have no effect: leave {wrong[0]} out, or "
                "pass both as integers"
            )
        return
    if not is_integer(cur_shard) or not is_integer(shard_count) or not 0 <= cur_shard < shard_count:
        raise InvalidArgumentError(
            f"partition and num_partitions must be ints and both specified, with 0 <= cur_shard < "
            f"shard_count, or cur_shard='auto'; found cur_shard={cur_shard!r}, "
            f"shard_count={shard_count!r}"
        )
