"""Numbers of rows, as ``rows=`` states them: as a range if they are evenly spaced."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.read import SampleSource, fingerprint_of
from mdstorm_backend.read.made_columns import SampleNumbers


def check_rows(name: str, rows: Any) -> Any:
    """Return chosen rows as None, a slice, a range or an array of integers or booleans.

    Raises
    ------
    ArgumentTypeError
        If they are something else.
    """
    if rows is None or isinstance(rows, (slice, range)):
        return rows
    if isinstance(rows, np.ma.MaskedArray):
        raise ArgumentTypeError(
            f"{name} is a masked array of NumPy, whose masked values are neither chosen nor left "
            f"out: pass np.ma.filled({name}, False) for booleans, or {name}.compressed()"
        )
    array = np.asarray(rows)
    is_list = array.dtype.kind in "iu" and isinstance(rows, (list, tuple))
    if is_list and not {bool, np.bool_}.isdisjoint(map(type, rows)):
        raise ArgumentTypeError(
            f"{name} has booleans among integers: pass numbers of rows, or one boolean for each row"
        )
    if array.ndim != 1 or (array.dtype.kind not in "iub" and array.size):
        raise ArgumentTypeError(
            f"{name} must be numbers of rows, a slice or a boolean array with one value for each "
            f"row, found {rows!r}"
        )
    return array


def numbers_of_rows(dataset: SampleSource, rows: Any) -> SampleNumbers:
    """Return the numbers of chosen rows, as a range if possible.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If `rows` has another form, does not match the dataset, or chooses nothing.
    """
    rows, count, url = check_rows("rows", rows), len(dataset), dataset.url
    if isinstance(rows, np.ndarray) and rows.dtype == np.bool_:
        if len(rows) != count:
            raise InvalidArgumentError(
                f"rows has {len(rows)} values, but {url} has {count} rows: pass one boolean for "
                "each row, or numbers of rows"
            )
        rows = np.flatnonzero(rows)
    elif isinstance(rows, np.ndarray) and len(rows) == count > 2 and np.isin(rows, (0, 1)).all():
        raise InvalidArgumentError(
            f"rows has {count} integers, all 0 or 1, and {url} has {count} rows: for a mask, which "
            "consists of booleans, pass rows=np.asarray(rows, bool)"
        )
    numbers: SampleNumbers = range(count)[rows] if isinstance(rows, slice) else rows
    if isinstance(numbers, np.ndarray) and numbers.dtype.kind != "u":
        numbers = as_range(numbers.astype(np.int64))
    if not len(numbers):
        raise InvalidArgumentError(
            f"rows={rows!r} chooses no rows of {url}, which has {count}: choose at least one"
        )
    ends = (
        (numbers[0], numbers[-1]) if isinstance(numbers, range) else (numbers.min(), numbers.max())
    )
    if wrong := [row for row in ends if not 0 <= row < count]:
        raise InvalidArgumentError(
            f"rows has row {wrong[0]}, but the {count} rows of {url} are numbered from 0 to "
            f"{count - 1}: leave it out"
        )
    return as_range(numbers.astype(np.int64)) if isinstance(numbers, np.ndarray) else numbers


def as_range(numbers: npt.NDArray[np.int64]) -> SampleNumbers:
    """Return evenly spaced numbers as a range, and others unchanged."""
    if len(numbers) < 2:
        return range(int(numbers[0]), int(numbers[0]) + 1) if len(numbers) else range(0)
    step = int(numbers[1] - numbers[0])
    if step and bool((np.diff(numbers) == step).all()):
        return range(int(numbers[0]), int(numbers[-1]) + step, step)
    return numbers


def as_array(numbers: SampleNumbers) -> npt.NDArray[np.int64]:
    """Return numbers as an array, int64; an array is returned itself."""
    if isinstance(numbers, range):
        return np.arange(numbers.start, numbers.stop, numbers.step)
    return numbers


def is_ascending(numbers: SampleNumbers) -> bool:
    """Whether numbers are sorted; some may be repeated."""
    if isinstance(numbers, range):
        return numbers.step > 0 or len(numbers) == 1
    return bool((numbers[1:] >= numbers[:-1]).all())


def numbers_hash(numbers: SampleNumbers) -> str:
    """Return a hash of the numbers and their order, for states."""
    if isinstance(numbers, range):
        step = numbers.step if len(numbers) > 1 else 1
        text = f"{numbers.start} {step} {len(numbers)}".encode()
    else:
        text = numbers.astype("<i8").tobytes()
    return fingerprint_of(text)
