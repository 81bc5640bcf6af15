"""Find where n-grams start among consecutive rows, from their timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm.errors import InvalidArgumentError, UnsortedTimestampsError


def window_starts(
    timestamps: Sequence[Any], length: int, threshold: float, *, overlap: bool, name: str
) -> list[int]:
    """Return the first row of each n-gram.

    Parameters
    ----------
    timestamps : sequence
        Those of consecutive rows: numbers, ``datetime64``, or objects that can be subtracted.
    length : int
        Rows of an n-gram.
    threshold : number or numpy.timedelta64
        The largest step from a row of it to the next; a number is in the unit of the timestamps.
    overlap : bool
        Whether a row may be part of several; otherwise each begins after the last timestamp of
        that before.
    name : str
        Name of the field, for the message.

    Raises
    ------
    UnsortedTimestampsError
        If timestamps do not ascend, and there are enough for an n-gram of several rows.
    InvalidArgumentError
        If they are texts.
    """
    count, steps = len(timestamps) - length + 1, length - 1
    if count <= 0:
        return []
    stamps = _as_array(timestamps)
    starts = np.arange(count)
    if steps:
        fitting = np.concatenate([[0], np.cumsum(_steps_fit(stamps, threshold, name))])
        starts = np.flatnonzero(fitting[steps:] - fitting[:-steps] == steps)
    return starts.tolist() if overlap else _apart(stamps, starts, length)


def _as_array(timestamps: Sequence[Any]) -> npt.NDArray[Any]:
    """Return timestamps as an array; of objects where NumPy has no type for them."""
    array = np.asarray(timestamps)
    return array.astype(object) if array.dtype.kind not in "iufMO" else array


def _steps_fit(stamps: npt.NDArray[Any], threshold: float, name: str) -> npt.NDArray[np.bool_]:
    """Say of each step from a row to the next whether an n-gram may contain it."""
    unsorted = np.flatnonzero(~(stamps[:-1] <= stamps[1:]))
    if len(unsorted):
        first, second = stamps[unsorted[0]], stamps[unsorted[0] + 1]
        raise UnsortedTimestampsError(
            f"NGram assumes that the data is sorted by {name} field which is not the case: "
            f"{second} comes after {first}. Sort the rows of each row group when writing them, "
            f"df.sortWithinPartitions({name!r})"
        )
    if isinstance(stamps[0], (str, bytes)):
        raise InvalidArgumentError(
            f"timestamp_field {name} holds {stamps[0]!r}: name a field of numbers or of times"
        )
    steps = np.diff(stamps)
    if steps.dtype.kind == "m":
        if isinstance(threshold, np.timedelta64):
            # NumPy finds the unit that both have.
            return np.asarray((steps <= threshold) & (steps >= np.timedelta64(0)), np.bool_)
        steps = steps.astype(np.int64)
    # A step that is too large for its type has become negative.
    return np.asarray((steps <= threshold) & (steps >= 0), np.bool_)


def _apart(stamps: npt.NDArray[Any], starts: npt.NDArray[np.int64], length: int) -> list[int]:
    """Leave out n-grams that begin before the one before them has ended."""
    chosen: list[int] = []
    for start in starts.tolist():
        if not chosen or stamps[start] > stamps[chosen[-1] + length - 1]:
            chosen.append(start)
    return chosen
