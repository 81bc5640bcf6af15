"""`NumberedRows`: a dataset with a column of row numbers, for ``row_numbers=``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.datasets.dataset_view import DatasetView
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.format import Column, Schema
from mdstorm_backend.order import Chunk
from mdstorm_backend.read import SampleSource
from mdstorm_backend.read.block import Located, Opened
from mdstorm_backend.read.row_numbers import Numbers, RowNumbers


def check_row_numbers(name: str, column: object) -> None:
    """Raise ArgumentTypeError unless `column` is None or can be the name of a column."""
    if column is not None and not (isinstance(column, str) and column):
        raise ArgumentTypeError(
            f"{name} must be the name of the column to add, found {column!r}: for example "
            f'{name}="row"'
        )


class NumberedRows(DatasetView):
    """A dataset with a further column, last, that has the number of each row.

    Parameters
    ----------
    source : SampleSource
        The dataset.
    name : str
        Name of the column.

    Raises
    ------
    InvalidArgumentError
        If the dataset has a column of this name.
    """

    row_numbers: RowNumbers

    def __init__(self, source: SampleSource, name: str) -> None:
        super().__init__(source, source.shard_sizes)
        if name in source.schema:
            raise InvalidArgumentError(
                f"row_numbers={name!r} adds a column, but {source.url} has one of this name: "
                "choose another name"
            )
        column = Column(name, "int64", spark_type="long", nullable=False)
        self.schema = Schema((*source.schema, column))
        self.fingerprint, self.chosen = source.fingerprint, source.chosen
        self.where = source.where
        self.row_numbers = RowNumbers(name, source.all_rows.stored_numbers)

    @property
    def all_rows(self) -> SampleSource:
        """The dataset with all of its rows, without the column."""
        return self.source.all_rows

    def located(
        self, chunk: Chunk, kept: Opened | None = None, *, is_first: bool = False
    ) -> Located:
        """Find the shards and rows of samples."""
        return self.source.located(chunk, kept, is_first=is_first)

    def stored_numbers(self, numbers: Numbers) -> Numbers:
        """Return the numbers that samples have in the whole dataset."""
        return self.source.stored_numbers(numbers)

    def samples_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers of the samples that are rows of the whole dataset, ascending."""
        return self.source.samples_of(rows)

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the columns to read, the numbers last."""
        name = self.row_numbers.name
        stored = None if columns is None else [column for column in columns if column != name]
        return (*self.source.select(stored), name)

    def locate(self, i: int) -> tuple[int, int]:
        """Return the number of the stored shard that holds sample `i`, and its row there."""
        return self.source.locate(i)

    def sample(self, i: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return sample `i` with its number."""
        *stored, name = self.select(columns)
        sample = self.source.sample(i, stored)  # raises an error if there is no such sample
        (number,) = self.stored_numbers(np.array([i % len(self)]))
        return {**sample, name: number}
