"""Run a `TransformSpec` row by row, each row as a dict."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm._rows import cells
from mdstorm._transforms.declared_fields import DeclaredTransform
from mdstorm.errors import RowTransformError, TransformError
from mdstorm_backend.format import Batch, Values
from mdstorm_backend.read import objects

#: Types of numbers, from which NumPy makes an array without inspecting each one.
_NUMBERS = {bool, int, float, np.bool_} | {np.dtype(code).type for code in "bhilqBHILQefd"}
#: Placeholder for a value that NumPy has no type for.
_OBJECT = np.empty((), object)


class RowTransform(DeclaredTransform):
    """The transform of a row reader.

    The function takes and returns a dict with a value per field, as the reader would deliver it. No
    pandas is involved; arrays of one shape are stacked once.
    """

    def __call__(self, batch: Batch) -> Batch:
        """Transform some rows.

        Raises
        ------
        RowTransformError
            If the function returns other fields than declared.
        TransformError
            If a field has another type or shape than declared.
        """
        if self.spec.func is None:
            kept = {name: self._decoded(name, batch[name]) for name in self.columns}
            return {name: self.enforce(name, values) for name, values in kept.items()}
        given = {name: cells(batch[name], self.schema.get(name)) for name in self.names}
        rows = [
            self.spec.func(dict(zip(self.names, row, strict=True)))
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
        is_same = _are_scalars(batch[name]) and not self._is_late(name)
        if is_same and all(map(operator.is_, values, given[name])):
            return batch[name]  # what most functions do with most columns
        return column_of_cells(values)

    def _decoded(self, name: str, values: Values) -> Values:
        """Return a stored column, decoded if readers would decode it, as nothing does later."""
        if not self._is_late(name):
            return values
        return column_of_cells(cells(values, self.schema[name]))

    def _is_late(self, name: str) -> bool:
        column = self.schema.get(name)
        return column is not None and column.is_late

    def _check(self, row: Any) -> None:
        if not isinstance(row, dict):
            raise RowTransformError(
                f"the function of the TransformSpec returned {type(row).__name__}, not a dict: "
                "return the row at its end"
            )
        found = row.keys() - set(self.spec.removed_fields)
        if found == set(self.columns):
            return
        if unexpected := sorted(map(str, found - set(self.columns))):
            raise RowTransformError(
                f"a row got an unexpected keyword argument {unexpected[0]!r}: the function of the "
                f"TransformSpec returned {sorted(map(str, row))}, and the fields are "
                f"{list(self.columns)}. Declare what it adds in edit_fields, and what it drops in "
                "removed_fields"
            )
        raise RowTransformError(
            f"the function of the TransformSpec returned a row without "
            f"{sorted(set(self.columns) - found)}: return a value for every field, or name the "
            "fields to drop in removed_fields"
        )


def _as_declared_array(name: str, value: Any) -> Any:
    """Convert a list that a function returned for a field with a shape to an array."""
    if not isinstance(value, (list, tuple)):
        return value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # as NumPy 1.23 has it
            return np.array(value)
    except (ValueError, Warning) as error:
        raise TransformError(
            f"column {name!r} is declared with a shape in edit_fields, but the function returned a "
            f"list that is not an array ({error}): return one numpy.ndarray per row"
        ) from error


def _are_scalars(values: Values) -> bool:
    """Whether the values of a column cannot be changed in place."""
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and values.dtype.kind != "O"
    return not pa.types.is_nested(values.type)


def column_of_cells(values: list[Any]) -> Values:
    """Return one value per row as a column: stacked if all are alike, otherwise objects."""
    types = {type(value) for value in values}
    if types and types <= _NUMBERS:
        numbers = np.array(values)
        if numbers.dtype.kind != "O":  # as that of integers of more than 64 bits is
            return numbers
    arrays = [_as_array(value) for value in values]
    kinds = {array.dtype.kind for array in arrays}
    if "O" in kinds:
        return _with_objects(values, arrays)
    if len({(array.dtype, array.shape) for array in arrays}) == 1:
        return np.stack(arrays)
    if kinds <= set("biuf") and all(array.ndim == 0 for array in arrays):
        return np.stack(arrays)  # numbers of several types, as the widest of them
    return objects([array[()] for array in arrays])


def _as_array(value: Any) -> npt.NDArray[Any]:
    """Return a number, an array or a tensor as an array; what is none of them as an object."""
    if value is None or isinstance(value, (str, bytes, list, tuple, dict)):
        return _OBJECT
    array = np.asarray(value)
    return _OBJECT if array.dtype.kind in "USV" else array


def _with_objects(values: list[Any], arrays: list[npt.NDArray[Any]]) -> Values:
    """Return values as objects: what the function returned, but arrays and scalars of NumPy."""
    pairs = zip(values, arrays, strict=True)
    return objects([value if array.dtype.kind == "O" else array[()] for value, array in pairs])
