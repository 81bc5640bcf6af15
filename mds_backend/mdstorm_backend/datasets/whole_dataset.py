"""`WholeDataset`: the base class for datasets with all of their rows, to be found and chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.datasets.chosen_rows import (
    ChosenRows,
    as_array,
    matching_numbers,
    numbers_of_rows,
)
from mdstorm_backend.datasets.filters import check_where
from mdstorm_backend.datasets.sample_dataset import SampleDataset

if TYPE_CHECKING:
    import pyarrow as pa


class WholeDataset(SampleDataset):
    """A dataset with all of its rows, whose numbers say which row is which."""

    def numbers(self, where: Any) -> npt.NDArray[np.int64]:
        """Return the numbers of the rows that match conditions, ascending, as int64.

        Parameters
        ----------
        where : list of tuple, list of list of tuple or pyarrow.compute.Expression
            Conditions on columns. They are evaluated once on each machine, which keeps the result
            in its cache.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            If the conditions have another form, or do not fit the columns.
        """
        check_where("where", where)
        return np.array(as_array(matching_numbers(self, range(len(self)), where)))

    def to_table(self, columns: Sequence[str] | None = None, *, rows: Any = None) -> pa.Table:
        """Read the whole dataset, or some rows of it, as one Arrow table.

        Parameters
        ----------
        columns : sequence of str, optional
            Columns to read; all by default.
        rows : sequence of int, slice or boolean array, optional
            Numbers of the rows, in the order of the table. Only their shards are read.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            If there is no such column or row.
        """
        if rows is None:
            return super().to_table(columns)
        return ChosenRows(self, numbers_of_rows(self, rows)).to_table(columns)
