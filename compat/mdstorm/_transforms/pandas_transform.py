"""Run a `TransformSpec` on batches as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm._transforms.declared_fields import DeclaredTransform, check_shape, declared_dtype
from mdstorm._transforms.pandas_frames import batch_to_frame
from mdstorm._transforms.pandas_values import Expected, series_to_values
from mdstorm.errors import TransformError
from mdstorm.transform import TransformSpec
from mdstorm_backend.format import Batch, Schema, Values
from mdstorm_backend.read import objects

if TYPE_CHECKING:
    import pandas as pd


class PandasTransform(DeclaredTransform):
    """The transform of a batch reader: its function takes and returns pandas frames."""

    def __init__(self, spec: TransformSpec, schema: Schema, names: Sequence[str]) -> None:
        super().__init__(spec, schema, names)
        self._expected = {name: self._expect(name) for name in self.columns}

    def __call__(self, batch: Batch) -> Batch:
        """Transform some rows.

        Raises
        ------
        TransformError
            If the function returns other columns than declared, or arrays of other shapes.
        """
        frame = batch_to_frame(batch, self.schema)
        if self.spec.func is not None:
            frame = self.spec.func(frame)
        columns = self._select(frame)
        return {name: self._to_values(name, frame[name]) for name in columns}

    def _expect(self, name: str) -> Expected:
        if name in self.edited:
            return Expected.of_field(self.edited[name])
        column = self.schema.get(name)
        return Expected(pa.bool_()) if column is None else Expected.of_column(column)

    def _select(self, frame: pd.DataFrame) -> tuple[str, ...]:
        if not hasattr(frame, "columns"):
            raise TransformError(
                f"the function of the TransformSpec returned {type(frame).__name__}, not a pandas "
                "DataFrame: return the DataFrame at its end"
            )
        twice = frame.columns[frame.columns.duplicated()]
        if len(twice):
            raise TransformError(
                f"the function of the TransformSpec returned several columns named "
                f"{sorted(set(map(str, twice)))}: rename or drop all but one of each"
            )
        found = set(frame.columns) - set(self.spec.removed_fields)
        if self.spec.func is None and self.spec.selected_fields is not None:
            found &= set(self.columns)
        if found != set(self.columns):
            remedy = (
                "declare what the function adds or changes in edit_fields, and what it drops in "
                "removed_fields"
                if self.spec.selected_fields is None
                else "return the selected_fields alone"
            )
            raise TransformError(
                f"Transformed result columns ({sorted(map(str, found))}) do not match required "
                f"schema columns({sorted(self.columns)}): {remedy}"
            )
        return self.columns

    def _to_values(self, name: str, series: pd.Series[Any]) -> Values:
        field = self.edited.get(name)
        try:
            if field is not None and len(field[2]) > 1:
                values = _stack(name, series.tolist(), tuple(field[2]), declared_dtype(field[1]))
            else:
                values = series_to_values(series, self._expected[name])
            return self.enforce(name, values)
        except TransformError:
            raise
        except (TypeError, ValueError, OverflowError, AttributeError, pa.ArrowException) as error:
            raise TransformError(
                f"column {name!r}, which the function returned with pandas type {series.dtype}, "
                f"cannot be delivered: {error}. Return values of one type, and arrays as one "
                "numpy.ndarray per cell, or leave the column out with removed_fields"
            ) from error


def _stack(
    name: str, cells: list[Any], shape: tuple[int | None, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
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
    check_shape(name, objects(cells), shape)
    return np.stack(cells) if cells else np.empty((0, *map(int, shape)), dtype)  # type: ignore[arg-type]
