"""Errors for values that Arrow and NumPy can hold, but Python's own types cannot.

These are dates and times before year 1 and after 9999, and in Parquet files text that is not UTF-8
and decimals with more digits than their type has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.errors import EncodingError, EncodingRangeError, MDStormError
from mdstorm_backend.format.values.batch import Values, as_arrow, copy_values

#: The first of Python's dates, and the day after the last.
_FIRST, _END = np.datetime64("0001-01-01"), np.datetime64("10000-01-01")
#: The largest number of microseconds that nanoseconds can hold.
_MOST_MICROSECONDS = np.iinfo(np.int64).max // 1000
#: Errors of pyarrow for a value that it cannot convert or that is not valid.
_ERRORS = (OverflowError, UnicodeDecodeError, pa.ArrowException)


@contextmanager
def python_objects(name: str, values: Values, first: int = 0, of: str = "") -> Iterator[None]:
    """Name the row of the first invalid value, if a block that converts a column to objects fails.

    Parameters
    ----------
    name : str
        Name of the column.
    values : numpy.ndarray or pyarrow.Array
        Its values. Only errors about Arrow arrays are translated.
    first : int
        Number of the first row.
    of : str
        What has these row numbers, for the message; by default the rows that are converted.

    Raises
    ------
    EncodingRangeError
        If a date or time is not in the years 1 to 9999.
    EncodingError
        If a string is not UTF-8, or a decimal is beyond its precision.
    """
    try:
        # pyarrow converts only these invalid values without an error.
        if not isinstance(values, np.ndarray) and "decimal" in str(values.type):
            check_valid(values)
        yield
    except _ERRORS as error:
        if isinstance(error, MDStormError) or isinstance(values, np.ndarray):
            raise
        check_python_objects(name, values, first, of)
        raise


def check_python_objects(name: str, values: Values, first: int = 0, of: str = "") -> None:
    """Raise the error of `python_objects` if there is an invalid value."""

    def convert(rows: pa.Array) -> None:
        check_valid(rows)
        rows.to_pylist()

    found = first_failure(as_arrow(values), convert, _ERRORS)
    if found is not None:
        row, error = found
        is_decimal = "decimal" in str(error).lower()
        of = of or f"the {len(values)} rows read"
        raise _error(name, error, first + row, of, is_decimal=is_decimal) from error


def first_failure(
    values: pa.Array, convert: Callable[[pa.Array], object], errors: tuple[type[Exception], ...]
) -> tuple[int, Exception] | None:
    """Return the first row that cannot be converted, and the error; None if there is none.

    Parameters
    ----------
    values : pyarrow.Array
        The rows.
    convert : callable
        Raises one of `errors` for rows among which there is such a row.
    """
    good, bad = 0, len(values) + 1  # the numbers of rows that can and cannot be converted
    error: Exception | None = None
    while bad - good > 1:
        # All rows are tried first, and then half of those in question.
        middle = len(values) if error is None else (good + bad) // 2
        try:
            convert(copy_values(values, 0, middle))
            good = middle
        except errors as found:
            bad, error = middle, found
    return None if error is None else (good, error)


def check_valid(values: pa.Array) -> None:
    """Raise ArrowInvalid for text that is not UTF-8 and decimals beyond their precision."""
    if pa.types.is_nested(values.type):
        # Without a copy, the nested values of all rows are checked for each slice of an array.
        values = copy_values(values, 0, len(values))
    values.validate(full=True)


def date_objects(name: str, dates: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of ``datetime64[D]`` as `datetime.date` objects, with None for NaT.

    Raises
    ------
    EncodingRangeError
        If a date is not in the years 1 to 9999. NumPy would return an integer.
    """
    beyond = _beyond_python(dates)
    if beyond.any():
        row = int(beyond.reshape(len(dates), -1).any(1).argmax())
        raise _error(name, OverflowError(dates[row]), row, f"the {len(dates)} rows read")
    found = dates.astype(object)
    found[np.isnat(dates)] = None
    return found


def check_years(values: pa.Array) -> None:
    """Raise OverflowError for dates or timestamps that are not in the years 1 to 9999."""
    unit = "D" if pa.types.is_date32(values.type) else values.type.unit
    numbers = values.drop_null().view(pa.int32() if unit == "D" else pa.int64())
    times = np.asarray(numbers).astype(f"datetime64[{unit}]")
    beyond = _beyond_python(times)
    if beyond.any():
        raise OverflowError(f"{times[beyond][0]} is not in the years 1 to 9999")


def _beyond_python(times: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which dates or times Python cannot hold; NaT is not among them."""
    found: npt.NDArray[np.bool_] = (times < _FIRST) | (times >= _END)
    return found


def nanosecond_times(name: str, times: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return times as ``datetime64[ns]``.

    Raises
    ------
    EncodingRangeError
        If a time is not in the years 1677 to 2262. NumPy would return another time.
    """
    if (worst := beyond_nanoseconds(times)) is not None:
        row = int((times == worst).argmax())
        raise EncodingRangeError(
            f"column {name!r} holds the time {worst} in row {row} of the {len(times)} rows read, "
            "which nanoseconds cannot hold: they cover the years 1677 to 2262. Read the column as "
            "NumPy or Arrow, store it as a number, or leave it out",
            column=name,
        )
    return times.astype("datetime64[ns]")


def beyond_nanoseconds(times: npt.NDArray[Any]) -> np.datetime64 | None:
    """Return the time farthest from 1970 if it is before 1677 or after 2262, else None."""
    missing = np.isnat(times)
    present = times[~missing] if missing.any() else times.reshape(-1)
    numbers = present.astype("datetime64[us]", copy=False).view(np.int64)
    if len(numbers) and max(int(numbers.max()), -int(numbers.min())) > _MOST_MICROSECONDS:
        worst: np.datetime64 = present[np.abs(numbers).argmax()]
        return worst
    return None


def _error(
    name: str, error: Exception, row: int, of: str, *, is_decimal: bool = False
) -> EncodingError:
    where = f"column {name!r}" if name else "a column"
    if isinstance(error, OverflowError):
        return EncodingRangeError(
            f"{where} holds a date or time in row {row} of {of} that Python cannot hold ({error}): "
            "its years are 1 to 9999. Correct the row, store the values as integers, or leave the "
            "column out",
            column=name,
        )
    fix = "store the values with more digits" if is_decimal else "store the text as binary"
    return EncodingError(
        f"{where} holds an invalid value in row {row} of {of} ({error}). Correct the row, {fix}, "
        "or leave the column out",
        column=name,
    )
