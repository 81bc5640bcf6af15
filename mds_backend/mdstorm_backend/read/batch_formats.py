"""Convert batches to NumPy, Arrow and pandas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.base import require
from mdstorm_backend.errors import InvalidArgumentError, UnsupportedTypeError
from mdstorm_backend.format import Batch, Column, Schema, Values
from mdstorm_backend.format.values import nested_lists
from mdstorm_backend.format.values.python_objects import (
    date_objects,
    nanosecond_times,
    python_objects,
)
from mdstorm_backend.read.late import decode_late, objects
from mdstorm_backend.read.logical import as_lists

if TYPE_CHECKING:
    import pandas as pd


def formatter(name: str, schema: Schema) -> Callable[[Batch], Any]:
    """Return the function that turns a batch of `schema` into the format `name`."""
    functions: dict[str, Callable[[Batch, Schema], Any]] = {
        "numpy": to_numpy,
        "arrow": to_record_batch,
        "pandas": to_pandas,
    }
    if name not in functions:
        raise InvalidArgumentError(f"format {name!r} is unknown: use one of {list(functions)}")
    return lambda batch: functions[name](batch, schema)


def to_record_batch(batch: Batch, schema: Schema) -> pa.RecordBatch:
    """Convert a batch to Arrow, without copying where Arrow can wrap NumPy arrays.

    Images and pickles stay as stored bytes; JSON values, and decimals without
    a Spark type, become strings.

    Raises
    ------
    UnsupportedTypeError
        If arrays of different shapes or dtypes have no common type.
    """
    arrays = []
    for column in schema:
        values, type_ = batch[column.name], column.arrow_type
        if isinstance(values, np.ndarray) and values.dtype == object:
            values = _objects_to_arrow(values, column)
        array = as_lists(column, values)
        # Arrays that store their own dtype keep the type that they have in this batch.
        states_type = column.is_array and pa.types.is_null(type_.value_type)
        arrays.append(array if array.type == type_ or states_type else array.cast(type_))
    # Fields stay nullable: the nullability in the schema is Spark's claim about the source, which
    # nothing enforces.
    return pa.RecordBatch.from_arrays(arrays, names=list(schema.names))


def _objects_to_arrow(values: npt.NDArray[Any], column: Column) -> pa.Array:
    """Convert an object column: arrays of different shapes or dtypes, or large integers."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    kinds = {(array.dtype, array.ndim) for array in arrays}
    if len(kinds) <= 1 and all(array.ndim == 1 for array in arrays):
        try:
            return pa.array(list(values))
        except (OverflowError, pa.ArrowInvalid):
            found = "integers of more than 64 bits"
    else:
        found = " and ".join(sorted(f"{dtype.name} of {n} dimensions" for dtype, n in kinds))
    raise _no_arrow_type(column, found)


def _no_arrow_type(column: Column, found: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"column {column.name!r} holds {found}, which have no common Arrow type. Read it as NumPy, "
        "format='numpy', or leave it out with columns=[…]",
        columns={column.name: found},
    )


def to_table(batches: Iterable[pa.RecordBatch], schema: Schema) -> pa.Table:
    """Join batches from `to_record_batch`; arrays that store their own dtype must agree on it.

    Raises
    ------
    UnsupportedTypeError
        If arrays in the same column have different types.
    """
    all_batches = list(batches)
    fields = schema.arrow_schema
    for number, column in enumerate(schema):
        types = {batch.schema.field(number).type for batch in all_batches if batch.num_rows}
        if len(types) > 1:
            raise _no_arrow_type(column, " and ".join(sorted(map(str, types))))
        fields = fields.set(number, pa.field(column.name, *types or {column.arrow_type}))
    return pa.Table.from_batches((b for b in all_batches if b.num_rows), fields)


def to_numpy(batch: Batch, schema: Schema) -> dict[str, npt.NDArray[Any]]:
    """Return one NumPy array per column.

    Integer and boolean columns with nulls become float64 with NaN, as in pandas; dates and
    timestamps ``datetime64`` with NaT, day-time intervals integers (microseconds); strings,
    binaries, decimals, nested values and ragged arrays have dtype object, with None for null.
    Nested arrays are multidimensional arrays, or lists of arrays throughout if the column is
    uneven. Where the schema does not state shapes, arrays of the same shape in the batch are
    stacked. Images are decoded: ``(rows, height, width[, channels])`` if all have the same shape,
    otherwise objects. Values of JSON and pickles are loaded into objects.
    """
    return {column.name: column_to_numpy(batch[column.name], column) for column in schema}


def column_to_numpy(values: Values, column: Column | None) -> npt.NDArray[Any]:
    """Convert one column to NumPy, following the rules of `to_numpy`.

    `column` is None for a column that is not stored; the dtype then depends on the nulls in
    `values`.

    Raises
    ------
    EncodingError
        If Python's types cannot hold a value; see `python_objects`.
    """
    if isinstance(values, np.ndarray):
        return values
    if column is not None and column.is_late:
        return decode_late(values, column)
    with python_objects("" if column is None else column.name, values):
        return _arrow_to_numpy(values, column)


def _arrow_to_numpy(values: pa.Array, column: Column | None) -> npt.NDArray[Any]:
    if column is None:
        if nested_lists.depth_of(values.type) > 1:
            return objects(values.to_pylist())
        column = Column(
            "",
            "ndarray:int8" if pa.types.is_list(values.type) else "str",
            null_count=values.null_count,
        )
    if column.is_array:
        return _arrays_to_numpy(values, column)
    if column.is_nested or not pa.types.is_list(values.type):
        return scalars_to_numpy(values, column.null_count > 0 or values.null_count > 0)
    lengths = np.unique(np.asarray(pc.list_value_length(values)))
    is_even = column.may_have_one_length and len(lengths) == 1 and not values.null_count
    if is_even and nested_lists.depth_of(values.type) == 1:
        return scalars_to_numpy(values.flatten(), has_nulls=False).reshape(len(values), *lengths)
    return objects(values.to_pylist())


def scalars_to_numpy(values: pa.Array, has_nulls: bool) -> npt.NDArray[Any]:
    """Convert an Arrow array of scalars to NumPy; with `has_nulls`, integers become float64.

    So do booleans. Their nulls, and those of floats, become NaN.
    """
    if pa.types.is_duration(values.type):
        values = values.cast(pa.int64())
    type_ = values.type
    if pa.types.is_temporal(type_):
        unit = "D" if pa.types.is_date(type_) else "us"
        numbers = values.view(pa.int32() if unit == "D" else pa.int64())
        result = np.asarray(pc.fill_null(numbers, 0)).astype(f"datetime64[{unit}]")
        result[np.asarray(values.is_null())] = np.array("NaT", result.dtype)
        return result
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_):
        if not has_nulls:
            return np.array(values)
        values = values.cast(pa.float64(), safe=False)
    if pa.types.is_floating(values.type):
        # Nulls are filled only where there are any, because Arrow 14 cannot fill float16 nulls.
        return np.array(pc.fill_null(values, float("nan")) if values.null_count else values)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return values.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    return objects(values.to_pylist())


def _arrays_to_numpy(values: pa.Array, column: Column) -> npt.NDArray[Any]:
    """Stack arrays if they have the same shape and no row is null; otherwise return objects."""
    shape = column.value_shape
    if column.may_have_one_length and not values.null_count:
        shape = nested_lists.shapes_of(values).common()
    flat = nested_lists.elements_of(values)
    flat = scalars_to_numpy(flat, column.element_null_count > 0 or flat.null_count > 0)
    if shape is not None and not column.null_count and not values.null_count:
        return flat.reshape(len(values), *shape)
    return objects(
        nested_lists.rows_of(values, flat, nested_lists.split_array, uneven=column.uneven or None)
    )


def to_pandas(batch: Batch, schema: Schema) -> pd.DataFrame:
    """Convert a batch to a DataFrame.

    Like `to_numpy`, but with one array per cell for array columns, ``datetime64[ns]`` for
    timestamps, and `datetime.date` objects for dates.
    """
    return arrays_to_pandas({c.name: column_for_pandas(batch[c.name], c) for c in schema})


def column_for_pandas(values: Values, column: Column | None) -> npt.NDArray[Any]:
    """Convert one column for `arrays_to_pandas`: like `column_to_numpy`, but dates as objects."""
    if not isinstance(values, np.ndarray) and pa.types.is_date(values.type):
        with python_objects("" if column is None else column.name, values):
            return objects(values.to_pylist())
    return column_to_numpy(values, column)


def arrays_to_pandas(arrays: dict[str, npt.NDArray[Any]]) -> pd.DataFrame:
    """Make a DataFrame from arrays by column name; see `to_pandas`.

    Raises
    ------
    EncodingRangeError
        If a date is not in the years 1 to 9999, or a timestamp not in the years 1677 to 2262.
    """
    pandas = require("pandas")
    return pandas.DataFrame({name: _series(pandas, name, a) for name, a in arrays.items()})  # type: ignore[no-any-return]


def _series(pandas: Any, name: str, array: npt.NDArray[Any]) -> Any:
    if array.ndim > 1:
        array = objects(list(array))
    if array.dtype == "datetime64[D]":
        return pandas.Series(date_objects(name, array), dtype=object)
    if array.dtype.kind == "M":
        return pandas.Series(nanosecond_times(name, array))
    return pandas.Series(array, dtype=array.dtype)
