"""Numbers that are stored as text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["parse_floats", "parse_integers"]


def parse_integers(texts: pa.StringArray) -> pa.Int64Array | npt.NDArray[np.object_]:
    """Parse texts as Python's ``int`` does.

    Returns
    -------
    pyarrow.Int64Array or numpy.ndarray
        Python integers in an array of dtype object where one does not fit into 64 bits.

    Raises
    ------
    ValueError
        If one is no integer.
    """
    if not _holds(texts, b"xX"):  # Arrow takes hexadecimal numbers too
        try:
            return texts.cast(pa.int64())
        except pa.ArrowInvalid:
            pass  # too large, or with the signs, spaces and underscores that Python allows
    numbers = [int(text) for text in texts.to_pylist()]
    try:
        return pa.array(numbers, pa.int64())
    except OverflowError:
        return np.fromiter(numbers, object, len(numbers))


def parse_floats(texts: pa.StringArray) -> pa.DoubleArray:
    """Parse texts as Python's ``float`` does.

    Raises
    ------
    ValueError
        If one is no number.
    """
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return pa.array([float(text) for text in texts.to_pylist()], pa.float64())


def _holds(texts: pa.StringArray, characters: bytes) -> bool:
    buffer = texts.buffers()[2]
    content = np.frombuffer(buffer, np.uint8) if buffer else np.empty(0, np.uint8)
    return any(bool((content == character).any()) for character in characters)
