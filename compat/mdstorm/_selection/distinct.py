"""The distinct values of a column, for functions called once per value."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm._rows.rows import cells
from mdstorm_backend.format import Column, Values

#: Which of the distinct values each row has.
Codes: TypeAlias = "npt.NDArray[np.integer[Any]] | slice"


def distinct_cells(values: Values, column: Column | None = None) -> tuple[list[Any], Codes]:
    """Return the distinct values of a column, and which of them each row has.

    Values are as the row reader delivers them. Those that cannot be told apart quickly, such as
    arrays and objects, are returned one for each row.
    """
    if isinstance(values, np.ndarray):
        if values.ndim == 1 and values.dtype.kind != "O":
            unique, codes = np.unique(values, return_inverse=True)
            return cells(unique, column), codes
    elif not pa.types.is_nested(values.type) and not (column is not None and column.is_late):
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        return cells(encoded.dictionary, column), np.asarray(encoded.indices)
    return cells(values, column), slice(None)
