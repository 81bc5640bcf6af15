"""Run a `TransformSpec` on batches as pandas DataFrames."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm._transforms import row_transform
from mdstorm.errors import TransformError
from mdstorm.transform import EditedField, TransformSpec
from mdstorm_backend import format as mds
from mdstorm_backend.base import naming
from mdstorm_backend.read import (
    arrays_to_pandas,
    check_kept,
    column_for_pandas,
    objects,
    scalars_to_numpy,
)

if TYPE_CHECKING:
    import pandas as pd

_NUMBERS = (bool, np.bool_, int, float, np.number)
_SCALARS = (str, bytes, decimal.Decimal, datetime.date, bool, np.bool_)
_ARRAYS = (np.ndarray, list, tuple)


class PandasTransform(row_transform.DeclaredTransform):
    """A batch reader's transform, whose function takes and returns pandas DataFrames."""

    def __init__(self, spec: TransformSpec, schema: mds.Schema, names: Sequence[str]) -> None:
        super().__init__(spec, schema, names)
        #: Declared or stored types. Each shard is converted separately, so without these types, a
        #: shard with only null or empty values would get a different type than the other shards.
        self._types = {name: self._type_of(name) for name in self.columns}

    def call(self, function: Callable[[Any], Any], batch: mds.Batch) -> mds.Batch:
        """Call the function for all rows of a batch."""
        frame = batch_to_frame(batch, self.schema)
        index = frame.index
        with naming("TransformSpec function", function):
            frame = function(frame)
        self._check(frame)
        if self.keeps_rows:
            check_kept(len(index), len(frame))
            self._check_order(index, frame.index)
        return {name: self._to_values(name, frame[name]) for name in self.columns}

    def declared(self, name: str, values: mds.Values) -> mds.Values:
        """Convert a stored column to its declared type, as if a function had returned it."""
        return self._to_values(name, batch_to_frame({name: values}, self.schema)[name])

    def _type_of(self, name: str) -> pa.DataType | None:
        if name in self.edited:
            return _declared_type(self.edited[name])
        column = self.schema.get(name)
        return pa.bool_() if column is None else column.arrow_type

    def _check(self, frame: pd.DataFrame) -> None:
        if not hasattr(frame, "columns"):
            raise TransformError(
                f"the TransformSpec function returned {type(frame).__name__}, not a pandas "
                "DataFrame: end the function by returning the DataFrame"
            )
        twice = frame.columns[frame.columns.duplicated()]
        if len(twice):
            raise TransformError(
                f"the TransformSpec function returned several columns named "
                f"{sorted(set(map(str, twice)))}: rename or drop all but one of each"
            )
        returned = set(frame.columns) - set(self.spec.removed_fields)
        if returned != set(self.columns):
            remedy = (
                "declare what the function adds or changes in edit_fields, and what it drops in "
                "removed_fields"
                if self.spec.selected_fields is None
                else "return only the selected_fields"
            )
            raise TransformError(
                f"Transformed result columns ({sorted(map(str, returned))}) do not match required "
                f"schema columns({sorted(self.columns)}): {remedy}"
            )

    def _check_order(self, given: pd.Index[Any], returned: pd.Index[Any]) -> None:
        if not returned.equals(given) and returned.isin(given).all():
            place = int((returned != given).argmax())
            raise TransformError(
                f"the TransformSpec function has keeps_rows=True, but it moved rows: row {place} "
                f"of its result has the index {returned[place]} of another row. Return the same "
                "rows in the same order, with the index that they were given, or leave out "
                "keeps_rows. A new index (reset_index, ignore_index=True) hides moved rows from "
                "this check, and training that resumes would lose rows"
            )

    def _to_values(self, name: str, series: pd.Series[Any]) -> mds.Values:
        field = self.edited.get(name)
        try:
            if field is not None and len(field[2]) > 1:
                values = _stack(series.tolist(), field)
            elif field is None and name in self.schema and self.schema[name].is_nested:
                values = objects(series.tolist())  # pass through as Python objects
            else:
                values = series_to_values(series, self._types[name])
            return self.enforce(name, values)
        except TransformError:
            raise
        except (TypeError, ValueError, OverflowError, AttributeError, pa.ArrowException) as error:
            raise TransformError(
                f"column {name!r}, which the function returned with pandas type {series.dtype}, "
                f"cannot be returned: {error}. Return values of one type, and arrays as one "
                "numpy.ndarray per cell, or remove the column with removed_fields"
            ) from error


def _stack(cells: list[Any], field: EditedField) -> npt.NDArray[Any]:
    """Stack the cells of a multi-dimensional column; return objects if their shapes differ."""
    name, numpy_type, shape = field[0], field[1], tuple(field[2])
    for cell in cells:
        if not isinstance(cell, np.ndarray):
            raise TransformError(
                f"field {name} must be numpy array type. Found {type(cell).__name__}: return one "
                "numpy.ndarray per cell"
            )
    row_transform.check_shape(name, objects(cells), shape)
    if not cells:
        sizes = [size or 0 for size in shape]
        return np.empty((0, *sizes), row_transform.declared_dtype(numpy_type))
    return np.stack(cells) if len({cell.shape for cell in cells}) == 1 else objects(cells)


def _declared_type(field: EditedField) -> pa.DataType | None:
    """Return the declared Arrow type, as a hint; values of other types stay unchanged."""
    _, numpy_type, shape, _ = field
    dtype = row_transform.declared_dtype(numpy_type)
    if numpy_type is datetime.date:
        type_ = pa.date32()
    elif dtype.kind in "US":
        type_ = pa.string() if dtype.kind == "U" else pa.binary()
    elif dtype.kind in "biuf":
        type_ = pa.from_numpy_dtype(dtype)
    else:
        return None
    return pa.list_(type_) if len(shape) == 1 else type_


def series_to_values(series: pd.Series[Any], expected: pa.DataType | None) -> mds.Values:
    """Convert a DataFrame column to NumPy if all values have the same size, otherwise to Arrow.

    The result is always a copy. Nulls in extension types become NaN, except that nulls among
    booleans are kept. Timedeltas become microseconds.
    """
    if str(series.dtype) == "category" or str(series.dtype).startswith("Sparse"):
        series = type(series)(np.asarray(series))  # expand compact representations
    dtype: Any = series.dtype
    kind = getattr(dtype, "kind", "O")
    if getattr(dtype, "tz", None) is not None:
        return np.array(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if kind == "m":
        return _microseconds(series.to_numpy("timedelta64[ns]"))
    if isinstance(dtype, np.dtype) and kind != "O":
        if kind == "f" and not _holds_nan(expected) and series.isna().all():
            return _all_missing(len(series), expected)
        return np.array(series.to_numpy(), copy=True)
    if kind in "iuf":
        if series.isna().any():
            return np.array(series.to_numpy(np.float64, na_value=np.nan))
        return np.array(series.to_numpy(dtype.numpy_dtype))
    return _cells_to_values(series.tolist(), expected)


def _microseconds(durations: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert durations to microseconds, as int64, or as float64 with NaN if any are NaT."""
    values = durations.astype("timedelta64[us]")
    numbers = values.astype(np.int64)
    missing = np.isnat(values)
    return np.where(missing, np.nan, numbers) if missing.any() else numbers


def _holds_nan(type_: pa.DataType | None) -> bool:
    return type_ is None or pa.types.is_integer(type_) or pa.types.is_floating(type_)


def _all_missing(rows: int, type_: pa.DataType | None) -> mds.Values:
    """Return a column of nulls with the type that the column has in other shards."""
    if type_ is None:
        return pa.nulls(rows)
    if pa.types.is_floating(type_):
        return np.full(rows, np.nan, mds.numpy_dtype(type_))
    if pa.types.is_integer(type_) or pa.types.is_duration(type_):
        return np.full(rows, np.nan)
    if pa.types.is_timestamp(type_):
        return np.full(rows, "NaT", "datetime64[us]")
    return pa.nulls(rows, type_)


def _cells_to_values(cells: list[Any], expected: pa.DataType | None) -> mds.Values:
    """Convert a column of Python objects, stacking arrays of the same shape where possible."""
    cells = [None if is_missing(cell) else cell for cell in cells]
    sample = next((cell for cell in cells if cell is not None), None)
    if sample is None:
        return _all_missing(len(cells), expected)
    if isinstance(sample, _ARRAYS):
        return _arrays_to_values(cells, expected)
    if isinstance(sample, datetime.timedelta):
        return _microseconds(np.array(cells, "timedelta64[us]"))
    is_bool = isinstance(sample, (bool, np.bool_))
    if isinstance(sample, _NUMBERS) and not (is_bool and None in cells):
        return _numbers(cells)
    if not isinstance(sample, _SCALARS):
        return objects(cells)
    values = pa.array(cells)
    if pa.types.is_timestamp(values.type):
        micros = values.cast(pa.timestamp("us", values.type.tz), safe=False)
        return scalars_to_numpy(micros, has_nulls=True)
    return _adopt(values, expected)


def _numbers(cells: list[Any]) -> npt.NDArray[Any]:
    found = {type(cell).__name__ for cell in cells}
    if not all(cell is None or isinstance(cell, _NUMBERS) for cell in cells):
        raise TypeError(f"its cells are of several types: {', '.join(sorted(found))}")
    if None in cells:
        return np.array([np.nan if cell is None else cell for cell in cells], np.float64)
    return np.array(cells)  # of objects for integers that do not fit into 64 bits


def _adopt(values: pa.Array, type_: pa.DataType | None) -> pa.Array:
    """Cast values to the expected type if only nulls or precision differ and the values fit."""
    try:
        if type_ is not None and mds.common_type(values.type, type_) == type_:
            return values.cast(type_)
    except (TypeError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    return values


def _arrays_to_values(cells: list[Any], expected: pa.DataType | None) -> mds.Values:
    """Return arrays, lists and None as a matrix, as an Arrow list, or as objects.

    As in Petastorm, arrays that have the same length in this shard become a matrix, so a function
    that pads arrays does not need to declare their shape.
    """
    if not all(cell is None or isinstance(cell, _ARRAYS) for cell in cells):
        raise TypeError("some of its cells are arrays and some are not")
    depth = 0 if expected is None else mds.depth_of(expected)
    # A cell may be a list of arrays, because inner arrays can differ in length.
    if depth > 1 and any(isinstance(cell, list) for cell in cells):
        return _adopt(pa.array([_nested_list(cell) for cell in cells]), expected)
    arrays = [None if cell is None else np.asarray(cell) for cell in cells]
    present = [array for array in arrays if array is not None]
    if any(array.ndim != 1 for array in present):
        same = len({array.shape for array in present}) == 1 and len(present) == len(arrays)
        return np.stack(present) if same else _nested(arrays, expected, depth)
    if any(array.dtype.kind not in "biufM" for array in present if array.size):
        # Use the cells rather than the arrays, because NumPy drops trailing NUL characters from
        # strings.
        lists = _adopt(pa.array([_listed(cell) for cell in cells]), expected)
        return _matrix(lists)
    lengths = [0 if array is None else len(array) for array in arrays]
    flat = _joined([array for array in present if array.size], expected)
    same = len(present) == len(arrays) and len(set(lengths)) == 1
    if same and isinstance(flat, np.ndarray):
        return flat.reshape(len(arrays), lengths[0])
    return row_transform.lists_of(mds.as_arrow(flat), lengths, [array is None for array in arrays])


def _nested(
    arrays: list[npt.NDArray[Any] | None], type_: pa.DataType | None, depth: int
) -> mds.Values:
    """Return arrays with different shapes as nested lists if they are numeric, else as objects."""
    present = [array for array in arrays if array is not None]
    if depth < 2 or any(array.ndim != depth or array.dtype.kind not in "biuf" for array in present):
        return objects(arrays)
    element = pa.from_numpy_dtype(np.result_type(*[array.dtype for array in present]))
    return _adopt(mds.lists_of_arrays(arrays, mds.list_type(element, depth)), type_)


def _nested_list(cell: Any) -> Any:
    """Convert a nested list of arrays to a form that Arrow accepts."""
    if isinstance(cell, np.ndarray):
        return list(cell) if cell.ndim == 1 else list(map(_nested_list, cell))
    return [_nested_list(item) for item in cell] if isinstance(cell, (list, tuple)) else cell


def _listed(cell: Any) -> list[Any] | None:
    items = cell.tolist() if isinstance(cell, np.ndarray) else cell
    return None if items is None else [None if is_missing(item) else item for item in items]


def _joined(arrays: list[npt.NDArray[Any]], type_: pa.DataType | None) -> mds.Values:
    """Concatenate non-empty arrays; for no arrays, return an empty array of the expected type."""
    if arrays:
        dtype = np.result_type(*[array.dtype for array in arrays])
        if dtype.kind == "M" and dtype != "datetime64[D]":
            dtype = np.dtype("datetime64[us]")  # the engine's unit for timestamps
        return np.concatenate([array.astype(dtype) for array in arrays])
    element = type_.value_type if type_ is not None and pa.types.is_list(type_) else type_
    if element is not None and _holds_nan(element):
        return np.empty(0, mds.numpy_dtype(element))
    return pa.nulls(0, element or pa.null())


def _matrix(lists: pa.ListArray) -> mds.Values:
    """Return same-length lists as a matrix if elements are numbers or non-null booleans."""
    elements = lists.flatten()
    type_ = elements.type
    is_bool = pa.types.is_boolean(type_) and not elements.null_count
    lengths = lists.value_lengths().unique()
    if lists.null_count or len(lengths) != 1 or not (is_bool or _holds_nan(type_)):
        return lists
    return scalars_to_numpy(elements, elements.null_count > 0).reshape(len(lists), -1)


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, NaT or pandas' NA."""
    if cell is None or isinstance(cell, (*_ARRAYS, dict)):
        return cell is None
    return type(cell).__name__ in ("NAType", "NaTType") or (
        isinstance(cell, (float, np.floating)) and cell != cell
    )


def batch_to_frame(batch: mds.Batch, schema: mds.Schema) -> pd.DataFrame:
    """Return a batch as a DataFrame that the user's function may modify.

    Array columns have one `numpy.ndarray` per cell, dates are `datetime.date`, and strings are
    objects. Rows are numbered from 0. Columns that are not in `schema` are computed, not stored.

    Raises
    ------
    TransformError
        If a timestamp is outside the range that pandas supports.
    """
    arrays = {name: _for_function(values, schema.get(name)) for name, values in batch.items()}
    try:
        return arrays_to_pandas(arrays)
    except (ValueError, OverflowError):
        for name, array in arrays.items():
            _check_pandas_holds(name, array)
        raise


def _for_function(values: mds.Values, column: mds.Column | None) -> npt.NDArray[Any]:
    """Return a column as passed to the function, with nullable booleans as True, False or None."""
    if not isinstance(values, np.ndarray):
        if pa.types.is_boolean(values.type):
            return objects(values.to_pylist())
        if pa.types.is_list(values.type) and pa.types.is_boolean(values.type.value_type):
            cells = values.to_pylist()
            # Use object dtype only if the column has null elements, but then in every shard.
            dtype = object if column is None or column.element_null_count else np.bool_
            return objects([None if cell is None else np.array(cell, dtype) for cell in cells])
    return column_for_pandas(values, column)


def _check_pandas_holds(name: str, array: npt.NDArray[Any]) -> None:
    """Raise TransformError if pandas cannot represent the column's timestamps."""
    try:
        arrays_to_pandas({name: array})
    except (ValueError, OverflowError) as error:
        raise TransformError(
            f"column {name!r} of type {array.dtype} does not fit into the pandas DataFrame that "
            f"the function gets: {error}. pandas supports timestamps from 1677 to 2262: cast the "
            "column to LONG or STRING before converting, or leave it out with schema_fields"
        ) from error
