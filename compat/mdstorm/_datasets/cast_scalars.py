"""Cast columns of scalars without losing values silently."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.format import Values, as_arrow, is_number, numpy_dtype


def cast_scalars(values: Values, type_: pa.DataType) -> Values:
    """Return scalars as `type_`.

    Fractions are truncated when casting to integers, as in NumPy; strings are parsed.

    Parameters
    ----------
    values : numpy.ndarray or pyarrow.Array
        The scalars; null stays null.
    type_ : pyarrow.DataType
        A boolean, number, string, binary or timestamp.

    Returns
    -------
    numpy.ndarray or pyarrow.Array
        NumPy for numbers and booleans that were NumPy.

    Raises
    ------
    ValueError, pyarrow.ArrowException
        If a value does not fit.
    """
    if not isinstance(values, np.ndarray):
        return _cast_arrow(values, type_)
    if values.dtype.kind in "biuf" and is_number(type_):
        return _cast_numbers(values, numpy_dtype(type_))
    return _cast_arrow(as_arrow(values), type_)


def _cast_arrow(values: pa.Array, type_: pa.DataType) -> pa.Array:
    types = pa.types
    if types.is_decimal(values.type) and types.is_integer(type_):
        values = values.cast(pa.float64())
    cuts_off = types.is_floating(values.type) and types.is_integer(type_)
    if cuts_off:
        found = np.asarray(values.drop_null()) if values.null_count else np.asarray(values)
        _cast_numbers(found, numpy_dtype(type_))
    to_float = types.is_integer(values.type) and types.is_floating(type_)
    return values.cast(type_, safe=not (cuts_off or to_float))


def _cast_numbers(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype.kind in "iu" and values.dtype.kind != "b" and values.size:
        lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
        least, greatest = values.min(), values.max()  # NaN if there is one
        if not (lowest <= _integer(least) and _integer(greatest) <= highest):
            raise ValueError(f"{least} to {greatest} do not fit into {dtype}")
    return values.astype(dtype)


def _integer(value: Any) -> int:
    """Return a number as an integer; ValueError if it is none."""
    if value != value or value in (np.inf, -np.inf):
        raise ValueError(f"{value} is not an integer")
    return int(value)
