"""Values that take the place of nulls: whether a column can hold them, and putting them there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.schema import Column
from mdstorm_backend.format.values.nested_lists import element_type, elements_of, with_elements


def check_fill(column: Column, value: Any) -> None:
    """Refuse a value that cannot stand in the column, or not unchanged."""
    is_whole = column.is_array and is_row(value)
    shape = column.value_shape if is_whole else None
    if shape is not None and _shape_of(value) != shape:
        stated, found = (", ".join(map(str, size)) for size in (shape, _shape_of(value)))
        raise InvalidArgumentError(
            f"fill_nulls gives {found} elements for column {column.name!r}, whose arrays all "
            f"have {stated}: give as many, or one number for each of them"
        )
    type_ = column.element_type if column.is_array else column.arrow_type
    try:
        if is_whole:
            pa.array([_listed(value)], column.arrow_type)
        for item in _items(value) if is_whole else [value]:
            stored = _scalar(item, type_).as_py()
            if stored is None:
                raise TypeError("a null cannot take the place of a null")
            if not _is_kept(item, stored, type_):
                raise TypeError(f"it would become {stored!r}")
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise InvalidArgumentError(
            f"fill_nulls gives {value!r} for column {column.name!r} of type {column.arrow_type}, "
            f"which cannot hold it ({error}): give a value of that type"
        ) from error


def is_row(fill: Any) -> bool:
    """Whether a value stands for a whole array rather than for its elements."""
    if isinstance(fill, np.ndarray):
        return fill.ndim > 0
    return isinstance(fill, Sequence) and not isinstance(fill, (str, bytes))


def _shape_of(row: Any) -> tuple[int, ...]:
    """Return the shape of a sequence, by the first of what it holds."""
    inner = _shape_of(row[0]) if is_row(row) and len(row) and is_row(row[0]) else ()
    return (len(row), *inner)


def _items(row: Any) -> Iterator[Any]:
    """Yield the innermost values of a sequence, which may be nested."""
    for item in row:
        if is_row(item):
            yield from _items(item)
        else:
            yield item


def _is_kept(value: Any, stored: Any, type_: pa.DataType) -> bool:
    """Whether a value was stored as it is, but for the digits of a floating-point number."""
    if pa.types.is_floating(type_):
        return math.isfinite(stored) or not math.isfinite(value)
    if pa.types.is_date(type_) and isinstance(value, datetime):
        return datetime.combine(stored, time.min) == value.replace(tzinfo=None)
    return not isinstance(value, (float, np.floating, Decimal)) or bool(stored == value)


def default_of(column: Column) -> Any:
    """What takes the place of a null under a mask."""
    element = column.element_type if column.is_array else column.arrow_type
    if pa.types.is_floating(element):
        return float("nan")
    if pa.types.is_string(element) or pa.types.is_large_string(element):
        return ""
    if pa.types.is_binary(element):
        return b""
    if pa.types.is_boolean(element):
        return False
    if pa.types.is_list(element):
        return []
    return pa.scalar(0).cast(pa.int32() if pa.types.is_date(element) else pa.int64()).as_py()


def filled(values: pa.Array, fill: Any, column: Column) -> pa.Array:
    """Return a column with `fill` in the place of its nulls."""
    if not column.is_array:
        return pc.fill_null(values, _scalar(fill, values.type))
    if is_row(fill):
        return _replace_null_rows(values, _listed(fill))
    item = _scalar(fill, element_type(values.type))
    filled = _replace_null_rows(values, _repeated(fill, column.value_shape or (0,)))
    return with_elements(filled, pc.fill_null(elements_of(filled), item), keep_nulls=False)


def _listed(row: Any) -> list[Any]:
    return [_listed(item) if is_row(item) else item for item in row]


def _repeated(item: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return nested lists of one shape that hold nothing but `item`."""
    size, *inner = shape
    return [_repeated(item, tuple(inner)) if inner else item for _ in range(size)]


def _replace_null_rows(values: pa.Array, row: list[Any]) -> pa.ListArray:
    """Put the array `row` where a row is null. The result begins at offset 0."""
    if not values.null_count:
        return pa.concat_arrays([values])
    candidates = pa.concat_arrays([values, pa.array([row], values.type)])
    own = np.arange(len(values))
    return candidates.take(pa.array(np.where(np.asarray(values.is_null()), len(values), own)))


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_temporal(type_) and isinstance(value, int):
        return pa.scalar(value, pa.int32() if pa.types.is_date(type_) else pa.int64()).cast(type_)
    if isinstance(value, np.datetime64):
        stored = value.astype("datetime64[D]" if pa.types.is_date(type_) else "datetime64[us]")
        if stored != value:
            raise TypeError(f"it would become {stored}")
        value = stored.item()
    return pa.scalar(value, type_)
