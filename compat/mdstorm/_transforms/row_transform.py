"""Run a `TransformSpec` row by row, and check the results against the declared fields."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm._array_files import fits_shape
from mdstorm._rows import cells
from mdstorm.errors import NoMatchingFieldsError, RowTransformError, TransformError
from mdstorm.transform import EditedField, TransformSpec, warn_of_unknown
from mdstorm_backend.base import choose_among, naming
from mdstorm_backend.format import Batch, Schema, Values, num_rows
from mdstorm_backend.read import objects

_NUMBERS = "biuf"
#: Types of numbers that NumPy can put into an array without converting each value first.
_NUMBER_TYPES = {bool, int, float, np.bool_} | {np.dtype(code).type for code in "bhilqBHILQefd"}
#: Placeholder for a value that NumPy has no type for.
_OBJECT = np.empty((), object)


class DeclaredTransform:
    """Base class for reader transforms whose columns are declared by a `TransformSpec`.

    Subclasses define `call`, which calls the user's function. Without a function, columns are
    selected, and declared ones are converted to their types.

    Parameters
    ----------
    spec : TransformSpec
        The user's transform.
    schema : Schema
        The stored columns that are read.
    names : sequence of str
        Names of all input columns, including mask columns.

    Attributes
    ----------
    columns : tuple of str
        The output columns.
    unchanged : frozenset of str
        The output columns that contain their stored values.
    edited : dict of str to EditedField
        The declared fields, by name.

    Raises
    ------
    NoMatchingFieldsError
        If the transform removes all columns.
    TransformError
        If it declares columns that are not there, and has no function that could add them.
    """

    #: Whether every row is returned in its place.
    keeps_rows = False

    def __init__(self, spec: TransformSpec, schema: Schema, names: Sequence[str]) -> None:
        self.spec = spec
        self.schema = schema
        self.names = tuple(names)
        self.columns = spec._mdstorm_columns_of(names)
        self.edited = spec._mdstorm_edited()
        warn_of_unknown("remove_fields", spec.removed_fields, names)
        warn_of_unknown("selected_fields", spec.selected_fields or [], [*names, *self.edited])
        if not self.columns:
            selected, there = spec.selected_fields, [*names, *self.edited]
            raise NoMatchingFieldsError(
                f"selected_fields={selected} lists neither columns nor fields that edit_fields "
                f"adds{choose_among(selected[0], there)}"
                if selected
                else f"the TransformSpec removes all of the columns {list(names)}: keep at least "
                "one with selected_fields, or list fewer in removed_fields"
            )
        self.unchanged = frozenset[str]()
        self.keeps_rows = self.keeps_rows or spec.keeps_rows
        if spec.func is None:
            self.keeps_rows = True
            self.unchanged = frozenset(self.columns) - self.edited.keys()
            if added := [name for name in self.columns if name not in self.names]:
                raise TransformError(
                    f"edit_fields declares {added}, which are not among the columns {list(names)}, "
                    "and there is no function that adds them: pass func"
                )

    def __call__(self, batch: Batch) -> Batch:
        """Transform a batch.

        Raises
        ------
        RowTransformError
            If the function returns rows with other fields than the declared ones.
        TransformError
            If the function returns undeclared columns, or values of other types or shapes than
            declared.
        """
        if not num_rows(batch):  # the function is not called
            return {
                name: _no_values(self.edited[name]) if name in self.edited else batch[name]
                for name in self.columns
            }
        if self.spec.func is None:
            return {
                name: self.declared(name, batch[name]) if name in self.edited else batch[name]
                for name in self.columns
            }
        return self.call(self.spec.func, batch)

    def call(self, function: Callable[[Any], Any], batch: Batch) -> Batch:
        """Call the user's function for a batch with rows."""
        raise NotImplementedError

    def declared(self, name: str, values: Values) -> Values:
        """Convert a stored column to its declared type, without a function."""
        if self.is_late(name):
            values = column_of_cells(cells(values, self.schema[name]))
        return self.enforce(name, values)

    def is_late(self, name: str) -> bool:
        """Whether readers decode a column only after the transform."""
        column = self.schema.get(name)
        return column is not None and column.is_late

    def enforce(self, name: str, values: Values) -> Values:
        """Convert a declared column with `as_declared`; return other columns unchanged."""
        field = self.edited.get(name)
        return values if field is None else as_declared(values, field)


def declared_dtype(numpy_type: Any) -> np.dtype[Any]:
    """Return the NumPy dtype for a declared type, or the object dtype if NumPy has none."""
    try:
        dtype: np.dtype[Any] = np.dtype(numpy_type)
    except TypeError:
        return np.dtype(object)
    return dtype


def _no_values(field: EditedField) -> Values:
    """Return the values of a declared column in a batch without rows."""
    _, numpy_type, shape, _ = field
    dtype = declared_dtype(numpy_type)
    if dtype.kind not in _NUMBERS:
        return pa.nulls(0)
    return np.empty((0, *(size or 0 for size in shape)), dtype)


def as_declared(values: Values, field: EditedField) -> Values:
    """Convert values to the declared dtype, and check their shape.

    Numbers are cast if their values do not change; floating-point numbers may lose precision.
    Columns that are declared as integers or booleans but contain NaN stay floating-point, where NaN
    means null.

    Raises
    ------
    TransformError
        If the dtype cannot hold the values, or their shape differs from the declared one.
    """
    name, numpy_type, shape, _ = field
    dtype = declared_dtype(numpy_type)
    if dtype.kind in _NUMBERS:
        values = _as_numbers(name, values, dtype)
    elif isinstance(values, np.ndarray) and values.dtype.kind in _NUMBERS and dtype.kind in "US":
        raise _wrong_type(name, dtype, str(values.dtype))
    check_shape(name, values, tuple(shape))
    return values


def _as_numbers(name: str, values: Values, dtype: np.dtype[Any]) -> Values:
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "O":
            return objects([_cell_as_numbers(name, cell, dtype) for cell in values])
        return _cast(name, values, dtype)
    type_ = values.type
    if pa.types.is_list(type_):
        elements = _as_numbers(name, values.flatten(), dtype)
        if isinstance(elements, np.ndarray) or elements.type != type_.value_type:
            lengths = values.value_lengths().fill_null(0)
            return lists_of(pa.array(elements), lengths, np.asarray(values.is_null()))
        return values
    if pa.types.is_null(type_) or (pa.types.is_boolean(type_) and dtype.kind == "b"):
        return values
    if pa.types.is_boolean(type_) or pa.types.is_integer(type_) or pa.types.is_floating(type_):
        if values.null_count:
            return values
        return pa.array(_cast(name, values.to_numpy(zero_copy_only=False), dtype))
    raise _wrong_type(name, dtype, str(type_))


def lists_of(elements: pa.Array, lengths: npt.ArrayLike, missing: npt.ArrayLike) -> pa.ListArray:
    """Return an Arrow list array with the given elements, lengths and null mask."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets, mask=np.append(missing, False)), elements)


def _cell_as_numbers(name: str, cell: Any, dtype: np.dtype[Any]) -> Any:
    if cell is None:
        return None
    if not isinstance(cell, np.ndarray) or cell.dtype.kind not in _NUMBERS:
        found = f"{cell.dtype} arrays" if isinstance(cell, np.ndarray) else type(cell).__name__
        raise _wrong_type(name, dtype, found)
    return _cast(name, cell, dtype)


def _cast(name: str, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    actual = values.dtype
    if actual == dtype:
        return values
    if actual.kind not in _NUMBERS:
        raise _wrong_type(name, dtype, str(actual))
    if np.can_cast(actual, dtype, "safe") or dtype.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype(dtype)
    present = values
    if actual.kind == "f":
        missing = np.isnan(values)
        present = values[~missing] if missing.any() else values
    with np.errstate(invalid="ignore"):
        cast = present.astype(dtype)
    if not (cast.astype(actual) == present).all() or _wraps(present, dtype):
        raise TransformError(
            f"column {name!r} is declared as {dtype} in edit_fields, but the function returned "
            f"{actual} values that do not fit into it: declare another type, or convert them in "
            "the function"
        )
    return cast if present is values else values


def _wraps(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Whether integers would wrap around, which casting them back would not detect."""
    if not values.size or dtype.kind not in "iu":
        return False
    limits = np.iinfo(dtype)
    return bool(int(values.min()) < limits.min or int(values.max()) > limits.max)


def _wrong_type(name: str, dtype: np.dtype[Any], found: str) -> TransformError:
    return TransformError(
        f"column {name!r} is declared as {dtype} in edit_fields, but the function returned "
        f"{found}: declare its NumPy type, or convert it in the function"
    )


def check_shape(name: str, values: Values, shape: tuple[int | None, ...]) -> None:
    """Raise TransformError unless a column's values have the declared shape."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "O" and values.ndim == 1:
            shapes = {cell.shape for cell in values if isinstance(cell, np.ndarray)}
        else:
            shapes = {values.shape[1:]} if len(values) else set()
    elif pa.types.is_list(values.type):
        if pa.types.is_nested(values.type.value_type):
            return
        lengths = values.value_lengths().drop_null().unique().to_pylist()
        shapes = {(length,) for length in lengths}
    else:
        shapes = set() if values.null_count == len(values) else {()}
    for each in sorted(shapes):
        if not fits_shape(each, shape):
            raise TransformError(
                f"field {name} must be the shape {shape}, found {each}: reshape it in the "
                "function, or declare its shape in edit_fields"
            )


class RowTransform(DeclaredTransform):
    """A row reader's transform.

    The function takes and returns a dict with one value per field, in the form that the reader
    yields. pandas is not used, and arrays with the same shape are stacked only once.
    """

    keeps_rows = True

    def call(self, function: Callable[[Any], Any], batch: Batch) -> Batch:
        """Call the function for each row."""
        given = {name: cells(batch[name], self.schema.get(name)) for name in self.names}
        with naming("TransformSpec function", function):
            rows = [
                function(dict(zip(self.names, row, strict=True)))
                for row in zip(*given.values(), strict=True)
            ]
        for row in rows:
            self._check(row)
        return {name: self._column(name, batch, given, rows) for name in self.columns}

    def _column(
        self, name: str, batch: Batch, given: dict[str, list[Any]], rows: list[dict[str, Any]]
    ) -> Values:
        values = [row[name] for row in rows]
        if name in self.edited:
            if self.edited[name][2]:
                values = [_as_declared_array(name, value) for value in values]
            return self.enforce(name, column_of_cells(values))
        is_same = _are_scalars(batch[name]) and not self.is_late(name)
        if is_same and all(map(operator.is_, values, given[name])):
            return batch[name]  # the common case, an unchanged column
        return column_of_cells(values)

    def _check(self, row: Any) -> None:
        if not isinstance(row, dict):
            raise RowTransformError(
                f"the TransformSpec function returned {type(row).__name__}, not a dict: "
                "end the function by returning the row"
            )
        returned = row.keys() - set(self.spec.removed_fields)
        if returned == set(self.columns):
            return
        if unexpected := sorted(map(str, returned - set(self.columns))):
            raise RowTransformError(
                f"a row got an unexpected keyword argument {unexpected[0]!r}: the TransformSpec "
                f"function returned {sorted(map(str, row))}, but the fields are "
                f"{list(self.columns)}. Declare what it adds in edit_fields, and what it drops in "
                "removed_fields"
            )
        raise RowTransformError(
            f"the TransformSpec function returned a row without "
            f"{sorted(set(self.columns) - returned)}: return a value for every field, or list the "
            "fields to drop in removed_fields"
        )


def _as_declared_array(name: str, value: Any) -> Any:
    """Convert a returned list to an array, for a field with a declared shape."""
    if not isinstance(value, (list, tuple)):
        return value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy 1.23 only warns about ragged lists
            return np.array(value)
    except (ValueError, Warning) as error:
        raise TransformError(
            f"column {name!r} is declared with a shape in edit_fields, but the function returned a "
            f"list that is not an array ({error}): return one numpy.ndarray per row"
        ) from error


def _are_scalars(values: Values) -> bool:
    """Whether a column's values are immutable scalars."""
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype.kind != "O"
    return not pa.types.is_nested(values.type)


def column_of_cells(values: list[Any]) -> Values:
    """Return a list of values as a column: a stacked array if possible, else an object array."""
    types = {type(value) for value in values}
    if types and types <= _NUMBER_TYPES:
        numbers = np.array(values)
        if numbers.dtype.kind != "O":  # integers beyond 64 bits give an object array
            return numbers
    arrays = [_as_array(value) for value in values]
    kinds = {array.dtype.kind for array in arrays}
    if "O" in kinds:  # convert only numbers and tensors to NumPy
        pairs = zip(values, arrays, strict=True)
        return objects([v if array.dtype.kind == "O" else array[()] for v, array in pairs])
    if len({(array.dtype, array.shape) for array in arrays}) == 1:
        return np.stack(arrays)
    if kinds <= set("biuf") and all(array.ndim == 0 for array in arrays):
        return np.stack(arrays)  # promotes numbers with different dtypes
    return objects([array[()] for array in arrays])


def _as_array(value: Any) -> npt.NDArray[Any]:
    """Convert a number, array or tensor to an array; return the placeholder for anything else."""
    if value is None or isinstance(value, (str, bytes, list, tuple, dict)):
        return _OBJECT
    array = np.asarray(value)
    return _OBJECT if array.dtype.kind in "USV" else array
