"""Column statistics, gathered batch by batch, and values as plain JSON."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.format.values.batch import Values, as_arrow

#: Distinct lengths are counted up to this number.
_MOST_LENGTHS = 1000


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column.

    Attributes
    ----------
    rows, nulls, nans : int
        Number of values, of nulls, and of NaN among numbers and array elements.
    min, max, mean : object
        Of numbers, of the elements of numeric arrays, and (without mean) of dates, times and
        decimals, ignoring nulls and NaN; None if the column has none.
    shortest, longest : int or None
        Of strings in characters, of binary values in bytes, of arrays in elements.
    mean_length : float or None
        Likewise.
    lengths : int or None
        Number of distinct lengths, counted up to 1,000.
    """

    rows: int = 0
    nulls: int = 0
    nans: int = 0
    min: Any = None
    max: Any = None
    mean: float | None = None
    shortest: int | None = None
    longest: int | None = None
    mean_length: float | None = None
    lengths: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {key: plain(value) for key, value in vars(self).items()}


class StatisticsOf:
    """Gathers the statistics of one column. Memory: one batch, and the lengths seen."""

    def __init__(self) -> None:
        self._rows = self._nulls = self._nans = 0
        self._values = 0
        self._sum = 0.0
        self._is_number = False
        self._min: Any = None
        self._max: Any = None
        self._length_sum = self._length_count = 0
        self._shortest: int | None = None
        self._longest = 0
        self._lengths: set[int] = set()

    def add(self, values: Values) -> None:
        """Add some rows, as the reading core delivers them."""
        if isinstance(values, np.ndarray) and values.dtype == object:
            self._add_objects(values.tolist())
        else:
            self._add_arrow(as_arrow(values))

    def _add_arrow(self, values: pa.Array) -> None:
        self._rows += len(values)
        self._nulls += values.null_count
        type_ = values.type
        if pa.types.is_list(type_) or pa.types.is_large_list(type_):
            self._add_lengths(pc.list_value_length(values))
            while pa.types.is_list(type_) or pa.types.is_large_list(type_):
                values, type_ = values.flatten(), type_.value_type
        elif pa.types.is_string(type_) or pa.types.is_large_string(type_):
            self._add_lengths(pc.utf8_length(values))
        elif pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
            self._add_lengths(pc.binary_length(values))
        self._add_values(values, type_)

    def result(self) -> ColumnStatistics:
        """Return the statistics of what was added."""
        has_lengths = self._shortest is not None
        return ColumnStatistics(
            rows=self._rows,
            nulls=self._nulls,
            nans=self._nans,
            min=self._min,
            max=self._max,
            mean=self._sum / self._values if self._is_number and self._values else None,
            shortest=self._shortest,
            longest=self._longest if has_lengths else None,
            mean_length=self._length_sum / self._length_count if has_lengths else None,
            lengths=len(self._lengths) if has_lengths else None,
        )

    def _add_objects(self, values: list[Any]) -> None:
        """Add values without an Arrow type: arrays of several shapes or dtypes, large integers."""
        self._rows += len(values)
        there = [value for value in values if value is not None]
        self._nulls += len(values) - len(there)
        arrays = [value for value in there if isinstance(value, np.ndarray)]
        if arrays:
            self._add_lengths(pa.array([value.size for value in arrays], pa.int64()))
            for array in arrays:
                self._add_values(pa.array(array.reshape(-1)), pa.from_numpy_dtype(array.dtype))
            return
        numbers = [value for value in there if isinstance(value, int)]
        if numbers:
            self._is_number = True
            self._values += len(numbers)
            self._sum += float(sum(numbers))
            self._widen(min(numbers), max(numbers))

    def _add_lengths(self, lengths: pa.Array) -> None:
        found = np.asarray(lengths.drop_null(), np.int64)
        if len(found) == 0:
            return
        self._length_sum += int(found.sum())
        self._length_count += len(found)
        shortest = int(found.min())
        self._shortest = shortest if self._shortest is None else min(self._shortest, shortest)
        self._longest = max(self._longest, int(found.max()))
        if len(self._lengths) < _MOST_LENGTHS:
            room = _MOST_LENGTHS - len(self._lengths)
            self._lengths.update(np.unique(found)[:room].tolist())

    def _add_values(self, values: pa.Array, type_: pa.DataType) -> None:
        types = pa.types
        if types.is_floating(type_):
            numbers = np.asarray(values.drop_null()).astype(np.float64)
            missing = np.isnan(numbers)
            self._nans += int(missing.sum())
            self._add_numbers(numbers[~missing] if missing.any() else numbers)
        elif types.is_integer(type_):
            self._add_numbers(np.asarray(values.drop_null()))
        elif types.is_boolean(type_):
            self._add_numbers(np.asarray(values.drop_null().cast(pa.uint8())))
        elif types.is_temporal(type_) or types.is_decimal(type_):
            found = pc.min_max(values)
            self._widen(found["min"].as_py(), found["max"].as_py())

    def _add_numbers(self, numbers: np.ndarray[Any, Any]) -> None:
        self._is_number = True
        if len(numbers) == 0:
            return
        self._values += len(numbers)
        self._sum += float(numbers.sum(dtype=np.float64))
        self._widen(numbers.min().item(), numbers.max().item())

    def _widen(self, low: Any, high: Any) -> None:
        if low is None:
            return
        self._min = low if self._min is None else min(self._min, low)
        self._max = high if self._max is None else max(self._max, high)


def plain(value: Any) -> Any:
    """Return `value` in a form that `json.dumps` accepts.

    Bytes become base64; dates and times ISO 8601; decimals text; numbers that JSON cannot represent
    the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``; arrays lists; maps lists of pairs.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _NON_FINITE[str(value)]
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value / timedelta(seconds=1)
    return str(value)


_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
