"""Fill nulls and mask them in batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.base import choose_among
from mdstorm_backend.format import Column, Schema, depth_of, shapes_of
from mdstorm_backend.format.values.batch import MASK_SUFFIX, Batch, Values, are_null, as_arrow
from mdstorm_backend.format.values.nested_lists import element_type, elements_of, with_elements
from mdstorm_backend.read.batch_formats import column_to_numpy
from mdstorm_backend.read.late import objects
from mdstorm_backend.read.sample_source import SampleSource


class NullPolicy:
    """How to fill and mask nulls in each column.

    Parameters
    ----------
    schema : Schema
        The columns that are read.
    fill : mapping of str to value, optional
        The value that replaces nulls in a column; in a column of arrays, the null elements. A null
        array becomes an array of that value, with the shape that all arrays in the column have. It
        becomes an empty array if shapes vary, if it is inside another array, or if its elements are
        strings or binaries. In a column of such arrays, a list replaces null arrays instead, and
        null elements stay null.
    masks : sequence of str, optional
        Columns that get a boolean companion ``<name>_is_null``. Their own nulls become 0, NaN or
        empty unless `fill` has a value for them.
    source : SampleSource, optional
        The dataset. When null arrays are filled, it is read to find the shape of the arrays in a
        column whose schema does not specify it.

    Raises
    ------
    ArgumentTypeError
        If a column is unknown.
    InvalidArgumentError
        If a value does not fit its column, or if a mask would replace a column or be added twice.
    """

    def __init__(
        self,
        schema: Schema,
        fill: Mapping[str, Any] | None = None,
        masks: Sequence[str] = (),
        source: SampleSource | None = None,
    ) -> None:
        self._shapes: dict[str, tuple[int, ...] | None] = {}
        self.fill = dict(fill or {})
        self.masks = tuple(masks)
        # Only kept if it may be read, because the policy may be pickled as part of a transform.
        self._source = source if self.fill or self.masks else None
        unknown = [name for name in [*self.fill, *self.masks] if name not in schema]
        if unknown:
            raise errors.ArgumentTypeError(
                f"fill_nulls and null_masks name columns {unknown} that are not read"
                f"{choose_among(unknown[0], schema.names)}"
            )
        if len(set(self.masks)) < len(self.masks):
            raise errors.InvalidArgumentError(
                f"null_masks={list(self.masks)} names a column twice: list each column once"
            )
        if taken := [name + MASK_SUFFIX for name in self.masks if name + MASK_SUFFIX in schema]:
            raise errors.InvalidArgumentError(
                f"null_masks={list(self.masks)} would replace the existing columns {taken}: rename "
                "them, or leave them out"
            )
        self.schema = schema
        for name, value in self.fill.items():
            self.fill[name] = stored = _stored(schema[name], value)
            _check_fill(schema[name], stored)

    def afterwards(self, column: Column) -> Column:
        """Return the column after filling and masking, which has no nulls if it is treated."""
        if not self._is_treated(column):
            return column
        return replace(column, null_count=0, element_null_count=0)

    def content_of_nulls(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return what replaces nulls in those of the binary columns that are filled or masked."""
        treated = [name for name in names if name in self.fill or name in self.masks]
        return {name: self.fill.get(name, b"") for name in treated}

    def _is_treated(self, column: Column) -> bool:
        return column.name in self.fill or column.name in self.masks

    def __call__(self, batch: Batch) -> Batch:
        """Fill and mask nulls in a batch, which must have been read with exact nulls.

        Columns that are not in the schema are returned unchanged.
        """
        treated = {column.name: self._treat(batch[column.name], column) for column in self.schema}
        result = {**batch, **treated}
        for name in self.masks:
            result[name + MASK_SUFFIX] = are_null(batch[name])
        return result

    def _treat(self, values: Values, column: Column) -> Values:
        if column.origin.path_column:
            return values  # still paths; a `FileReader` fills the contents
        # Nulls inside arrays of strings and binaries are not counted.
        may_have_nulls = column.may_have_nulls or _holds_texts(column)
        if isinstance(values, np.ndarray):
            if not may_have_nulls or values.dtype != object:
                return values
        elif not (may_have_nulls or values.null_count):
            return values
        if (column.is_nested or column.is_late) and column.name not in self.fill:
            return values  # returned as Python objects, where null is None
        if self._is_treated(column):
            fill = self.fill.get(column.name, _default_of(column))
            if isinstance(values, np.ndarray):
                nothing = np.array([], column.element_type.to_pandas_dtype())
                return objects([nothing.copy() if v is None else v for v in values])
            shape = self._shape(values, column) if column.is_array else None
            return _to_values(_filled(values, fill, column, shape), self.afterwards(column))
        return column_to_numpy(values, column) if column.is_numpy() else values

    def _shape(self, values: pa.Array, column: Column) -> tuple[int, ...] | None:
        """Return the shape for arrays that replace nulls, which all other arrays share.

        Raises
        ------
        InvalidArgumentError
            If arrays have a different shape than the arrays that determined it.
        """
        if self._source is None or not column.may_have_one_length:
            return _shape_of_lists(values, column)
        if column.name not in self._shapes:
            self._shapes[column.name] = _shape_in(self._source, column)
        shape = self._shapes[column.name]
        present = values.drop_null()
        if shape is not None and len(present) and shapes_of(present).common() != shape:
            raise errors.InvalidArgumentError(
                f"null arrays of column {column.name!r} of {column.origin.url} are filled to the "
                f"shape {shape} of the arrays in its first row group, but others differ: convert "
                "the data to MDS, which records all shapes, fill the nulls in the transform, or "
                f"leave such rows out with filters=[({column.name!r}, '!=', None)]"
            )
        return shape


def _to_values(values: pa.Array, column: Column) -> Values:
    """Return filled values in the form of a column without nulls: NumPy if sizes are fixed."""
    fixed_size = replace(column, element_null_count=0).is_numpy()
    if fixed_size and column.is_array:
        shapes, shape = shapes_of(values), _shape_of_lists(values, column)
        if len(values) and shapes.common() != shape:  # a damaged index or shard
            raise errors.CorruptDatasetError.of_file(
                column.origin.url, f"has arrays in column {column.name!r} that are not {shape}"
            )
    return column_to_numpy(values, column) if fixed_size else values


def _shape_of_lists(values: pa.Array, column: Column) -> tuple[int, ...] | None:
    """Return the shape of a column's arrays as lists, which are flat without a Spark type."""
    shape = column.value_shape
    return (math.prod(shape),) if shape and depth_of(values.type) == 1 else shape


def _fills_elements(column: Column, value: Any) -> bool:
    """Whether a value replaces null elements in a column's arrays, rather than whole values."""
    return column.is_array or (
        _holds_texts(column) and not isinstance(value, (list, tuple, np.ndarray))
    )


def _holds_texts(column: Column) -> bool:
    """Whether a column holds arrays of strings or binaries, nested to any depth."""
    element = column.element_type
    is_text = pa.types.is_string(element) or pa.types.is_binary(element)
    return bool(is_text and pa.types.is_list(column.arrow_type))


def _stored(column: Column, value: Any) -> Any:
    """Return a fill value in the form in which nulls are filled.

    Raises
    ------
    InvalidArgumentError
        If the encoding has no such value.
    """
    column.parsed_encoding.check_decodable(column.name)
    try:
        return None if value is None else column.parsed_encoding.fill_value(value)
    except Exception as error:  # encodings raise errors of any kind
        raise errors.InvalidArgumentError(
            f"fill_nulls gives {value!r} for column {column.name!r} of encoding "
            f"{column.encoding!r}, which cannot hold it ({error}): pass a value that a writer "
            "accepts, or its encoded bytes"
        ) from error


def _check_fill(column: Column, value: Any) -> None:
    """Raise InvalidArgumentError if a fill value does not exactly fit its column's type."""
    fills_elements = _fills_elements(column, value)
    type_ = column.element_type if fills_elements else column.arrow_type
    try:
        stored = _scalar(value, type_).as_py()
        if stored is None:
            raise TypeError("a null cannot be replaced with a null")
        if not _is_kept(value, stored, type_):
            raise TypeError(f"it would become {stored!r}")
    except (pa.ArrowException, OverflowError, TypeError) as error:
        is_other_type = isinstance(error, pa.ArrowTypeError)
        why = f"it is of type {type(value).__name__}" if is_other_type else error
        wanted = f"one {type_} for all elements" if fills_elements else "a value of that type"
        raise errors.InvalidArgumentError(
            f"fill_nulls gives {value!r} for column {column.name!r} of type {column.arrow_type}, "
            f"which cannot hold it ({why}): pass {wanted}"
        ) from error


def _is_kept(value: Any, stored: Any, type_: pa.DataType) -> bool:
    """Whether a value is stored unchanged, except for the precision of floating-point columns."""
    if pa.types.is_floating(type_):
        return math.isfinite(stored) or not math.isfinite(value)
    if pa.types.is_date(type_) and isinstance(value, datetime):
        return datetime.combine(stored, time.min) == value.replace(tzinfo=None)
    # Arrow makes integers of everything with `__int__`, such as UUIDs.
    may_differ = pa.types.is_integer(type_) or isinstance(value, (float, np.floating, Decimal))
    return not may_differ or bool(stored == value)


def _default_of(column: Column) -> Any:
    """Return the value that replaces nulls in a masked column."""
    is_array = column.is_array or _holds_texts(column)
    element = column.element_type if is_array else column.arrow_type
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


def _filled(values: pa.Array, fill: Any, column: Column, shape: tuple[int, ...] | None) -> pa.Array:
    """Replace nulls in a column's values with `fill`, and null arrays with arrays of `fill`."""
    if not _fills_elements(column, fill):
        return pc.fill_null(values, _scalar(fill, values.type))
    if values.null_count:
        row = _repeated(fill, shape or (0,))
        rows = pa.concat_arrays([values, pa.array([row], values.type)])
        own = np.where(np.asarray(values.is_null()), len(values), np.arange(len(values)))
        values = rows.take(pa.array(own))
    item = _scalar(fill, element_type(values.type))
    return with_elements(values, pc.fill_null(elements_of(values), item), keep_nulls=False)


def _repeated(item: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return nested lists of the given shape, with `item` as every element."""
    size, *inner = shape
    return [_repeated(item, tuple(inner)) if inner else item for _ in range(size)]


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_temporal(type_) and isinstance(value, int):
        return pa.scalar(value, pa.int32() if pa.types.is_date(type_) else pa.int64()).cast(type_)
    if isinstance(value, np.datetime64):
        stored = value.astype("datetime64[D]" if pa.types.is_date(type_) else "datetime64[us]")
        if stored != value:
            raise TypeError(f"it would become {stored}")
        value = stored.item()
    return pa.scalar(value, type_)


def _shape_in(source: SampleSource, column: Column) -> tuple[int, ...] | None:
    """Return the shape of all arrays in the first shard that has any; None if they differ.

    Parameters
    ----------
    source : SampleSource
        The dataset.
    column : Column
        A column of arrays.
    """
    source = source.all_rows
    for number, size in enumerate(source.shard_sizes):
        rows = np.arange(size)
        values = source.shard(number).read(rows, [column.name], exact_nulls=True)[column.name]
        arrays = as_arrow(values).drop_null()
        if len(arrays):
            return shapes_of(arrays).common()
    return None
