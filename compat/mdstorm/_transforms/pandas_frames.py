"""Make the pandas DataFrames that functions of the user's own are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm.errors import TransformError
from mdstorm_backend.format import Batch, Column, Schema, Values
from mdstorm_backend.read import arrays_to_pandas, column_for_pandas, objects

if TYPE_CHECKING:
    import pandas as pd


def batch_to_frame(batch: Batch, schema: Schema) -> pd.DataFrame:
    """Return a batch as a DataFrame, which its receiver may change.

    Array columns have one `numpy.ndarray` per cell, dates are `datetime.date`, strings objects;
    rows are numbered from 0. Names that are not in `schema` are columns that were made here.

    Raises
    ------
    TransformError
        If a timestamp is outside of what pandas holds.
    """
    arrays = {name: _for_function(values, schema.get(name)) for name, values in batch.items()}
    try:
        return arrays_to_pandas(arrays)
    except (ValueError, OverflowError):
        for name, array in arrays.items():
            _check_pandas_holds(name, array)
        raise


def _for_function(values: Values, column: Column | None) -> npt.NDArray[Any]:
    """Return a column as the function gets it: booleans with nulls as True, False and None."""
    if not isinstance(values, np.ndarray):
        if pa.types.is_boolean(values.type):
            return objects(values.to_pylist())
        if pa.types.is_list(values.type) and pa.types.is_boolean(values.type.value_type):
            cells = values.to_pylist()
            # Of dtype object only where a null can be, then in every shard.
            dtype = object if column is None or column.element_null_count else np.bool_
            return objects([None if cell is None else np.array(cell, dtype) for cell in cells])
    return column_for_pandas(values, column)


def _check_pandas_holds(name: str, array: npt.NDArray[Any]) -> None:
    """Name the column that pandas rejects: it stores timestamps as nanoseconds."""
    try:
        arrays_to_pandas({name: array})
    except (ValueError, OverflowError) as error:
        raise TransformError(
            f"column {name!r} of type {array.dtype} does not fit into the pandas DataFrame that "
            f"the function gets: {error}. pandas holds timestamps from 1677 to 2262: cast the "
            "column to LONG or STRING before converting, or leave it out with schema_fields"
        ) from error
