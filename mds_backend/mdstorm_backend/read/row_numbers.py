"""`RowNumbers`: makes the column that has the number of each row in the dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mdstorm_backend.read.block import Located

#: Sample numbers within a dataset, in any order.
Numbers = range | npt.NDArray[np.int64]


@dataclass(frozen=True)
class RowNumbers:
    """Makes a column with the numbers of rows, from 0 in the stored order of a whole dataset.

    Attributes
    ----------
    name : str
        Name of the column.
    in_whole : callable
        Returns the numbers in the whole dataset of rows that were numbered in what is left of it.
    """

    name: str
    in_whole: Callable[[Numbers], Numbers]

    def __call__(self, parts: Sequence[Located]) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows in `parts`, freshly allocated."""
        found = [np.empty(0, np.int64), *(part.stored_numbers() for part in parts)]
        return np.asarray(self.in_whole(np.concatenate(found)))
