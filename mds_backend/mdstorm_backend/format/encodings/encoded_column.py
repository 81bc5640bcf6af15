"""Some rows of one column, as they are stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True)
class EncodedColumn:
    """Some rows of one column, as they are stored.

    Attributes
    ----------
    name : str
        Name of the column.
    encoding : str
        Encoding of these rows; for arrays it tells whether they all have one length.
    fixed : numpy.ndarray or None
        Shape ``(rows, *shape)``, little-endian, for a fixed-size encoding.
    parts : list of pyarrow.LargeBinaryArray
        For a variable-size encoding: pieces whose concatenation, row by row, is the value.
    valid : numpy.ndarray or None
        bool ``(rows,)``, False where the row is null; None where none is.
    elements : numpy.ndarray or None
        bool, one per element of the arrays; None where none is null. Of nested arrays stored as
        JSON, one False for every null in them.
    element_ends : numpy.ndarray or None
        int64 ``(rows + 1,)``: where the elements of each row begin; given for every array column.
    """

    name: str
    encoding: str
    fixed: npt.NDArray[Any] | None = None
    parts: list[pa.LargeBinaryArray] = field(default_factory=list)
    valid: npt.NDArray[np.bool_] | None = None
    elements: npt.NDArray[np.bool_] | None = None
    element_ends: npt.NDArray[np.int64] | None = None
