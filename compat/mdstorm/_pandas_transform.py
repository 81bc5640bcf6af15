"""A `TransformSpec` run on batches: to pandas, through the user's function, and back."""

from __future__ import annotations

import datetime
import decimal
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from mdstorm_backend.batch import Batch, Values
from mdstorm_backend.frameworks.formats import arrays_to_pandas, column_for_pandas, objects
from mdstorm_backend.schema import Column, Schema

from mdstorm.errors import TransformError
from mdstorm.transform import TransformSpec

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PandasTransform"]


class PandasTransform:
    """The transform of one reader.

    Parameters
    ----------
    spec : TransformSpec
        What the user gave.
    schema : Schema
        The stored columns that are read.
    names : sequence of str
        All columns that go in, mask columns included.
    """

    def __init__(self, spec: TransformSpec, schema: Schema, names: Sequence[str]) -> None:
        self.spec = spec
        self.columns = spec.columns_of(names)
        self._schema = schema
        self._shapes = {field[0]: tuple(field[2]) for field in spec.edit_fields}
        _warn_of_unknown("remove_fields", spec.removed_fields, names)
        _warn_of_unknown("selected_fields", spec.selected_fields or [], [*names, *self._shapes])

    def __call__(self, batch: Batch) -> Batch:
        """Transform some rows.

        Raises
        ------
        TransformError
            If the function returns other columns than declared, or arrays of other shapes.
        """
        frame = arrays_to_pandas(
            {name: _for_function(v, self._schema.get(name)) for name, v in batch.items()}
        )
        if self.spec.func is not None:
            frame = self.spec.func(frame)
        columns = self._select(frame)
        return {name: self._to_values(name, frame[name]) for name in columns}

    def _select(self, frame: pd.DataFrame) -> tuple[str, ...]:
        if not hasattr(frame, "columns"):
            raise TransformError(
                f"the function of the TransformSpec returned {type(frame).__name__} and not a "
                "pandas DataFrame: return the frame at its end"
            )
        found = set(frame.columns) - set(self.spec.removed_fields)
        if self.spec.func is None and self.spec.selected_fields is not None:
            found &= set(self.columns)
        if found != set(self.columns):
            raise TransformError(
                f"Transformed result columns ({sorted(map(str, found))}) do not match required "
                f"schema columns({sorted(self.columns)}): declare what the function adds or "
                "changes in edit_fields, and what it drops in removed_fields"
            )
        return self.columns

    def _to_values(self, name: str, series: pd.Series[Any]) -> Values:
        shape = self._shapes.get(name, ())
        if len(shape) > 1:
            return _stack(name, series.tolist(), shape)
        return series_to_values(series)


def _warn_of_unknown(argument: str, fields: Sequence[str], names: Sequence[str]) -> None:
    unknown = [name for name in fields if name not in names]
    if unknown:
        warnings.warn(
            f"{argument} specified some field names that are not part of the schema. These field "
            f"names will be ignored: {', '.join(unknown)}",
            UserWarning,
            stacklevel=6,
        )


def _for_function(values: Values, column: Column | None) -> npt.NDArray[Any]:
    """Return a column as the function sees it: booleans with nulls as True, False and None."""
    if not isinstance(values, np.ndarray) and pa.types.is_boolean(values.type):
        return objects(values.to_pylist())
    return column_for_pandas(values, column)


def _stack(name: str, cells: list[Any], shape: tuple[int | None, ...]) -> npt.NDArray[Any]:
    """Stack the cells of a column that is declared with several dimensions."""
    if None in shape:
        raise TransformError(
            f"All dimensions of a shape: {shape} in: {name} field must be constant: declare them "
            "in edit_fields"
        )
    for cell in cells:
        if not isinstance(cell, np.ndarray):
            raise TransformError(
                f"field {name} must be numpy array type. Found {type(cell).__name__}: return one "
                "numpy.ndarray per cell"
            )
        if cell.shape != shape:
            raise TransformError(
                f"field {name} must be the shape {shape}, found {cell.shape}: reshape it in the "
                "function, or declare its shape in edit_fields"
            )
    return np.stack(cells)


def series_to_values(series: pd.Series[Any]) -> Values:
    """Return the column of a DataFrame as NumPy where values have one size, as Arrow otherwise.

    Always a copy. Nulls of extension types become NaN.
    """
    if str(series.dtype) == "category":
        series = series.astype(series.cat.categories.dtype)
    dtype: Any = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return np.array(series.to_numpy(), copy=True)
    if getattr(dtype, "tz", None) is not None:
        return np.array(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if getattr(dtype, "kind", "O") in "iufb":
        missing = series.isna().any()
        return np.array(
            series.to_numpy(np.float64, na_value=np.nan)
            if missing
            else series.to_numpy(dtype.numpy_dtype)
        )
    return cells_to_values(series.tolist())


def cells_to_values(cells: list[Any]) -> Values:
    """Return a column of Python objects: arrays of one shape stacked, others as Arrow."""
    sample = next((cell for cell in cells if not _is_missing(cell)), None)
    if isinstance(sample, (np.ndarray, list, tuple)):
        return _arrays_to_values(cells)
    cells = [None if _is_missing(cell) else cell for cell in cells]
    if isinstance(sample, (bool, np.bool_, int, float, np.number)) and None not in cells:
        return np.array(cells)
    if isinstance(sample, (int, float, np.number)) and not isinstance(sample, bool):
        return np.array([np.nan if cell is None else cell for cell in cells], np.float64)
    if isinstance(sample, (str, bytes, decimal.Decimal, datetime.date, bool, np.bool_)):
        return pa.array(cells)
    return objects(cells)


def _arrays_to_values(cells: list[Any]) -> Values:
    if any(_is_missing(cell) for cell in cells):
        return pa.array([None if _is_missing(c) else np.asarray(c).tolist() for c in cells])
    arrays = [np.asarray(cell) for cell in cells]
    if len({array.shape for array in arrays}) == 1:
        stacked = np.stack(arrays)
        if stacked.dtype.kind in "OU":
            return pa.array(stacked.tolist()) if stacked.ndim == 2 else stacked
        return stacked
    if any(array.ndim != 1 for array in arrays):
        return objects(arrays)
    offsets = np.zeros(len(arrays) + 1, np.int32)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    flat = np.concatenate(arrays)
    values = pa.array(flat.tolist()) if flat.dtype.kind in "OU" else pa.array(flat)
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def _is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, NaT or pandas' NA."""
    if cell is None or isinstance(cell, (np.ndarray, list, tuple, dict)):
        return cell is None
    return type(cell).__name__ in ("NAType", "NaTType") or (
        isinstance(cell, float) and cell != cell
    )
