"""Chosen rows: a dataset of those rows of another one that ``rows=`` and ``where=`` state.

Orders, states and loaders count the chosen rows, and need to know nothing else. Only `located`
turns their numbers into those of stored rows, just before shards are found. If the rows ascend, a
shard of `ChosenRows` has those that the stored shard has, so that shuffling by shard and in windows
reads few shards at a time. Otherwise the rows are in the order in which they were given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.datasets.dataset_view import DatasetView
from mdstorm_backend.datasets.description import describe_dataset
from mdstorm_backend.datasets.matching_rows import conditions_on, matching_numbers
from mdstorm_backend.datasets.row_choice import (
    as_array,
    as_range,
    is_ascending,
    numbers_hash,
    numbers_of_rows,
)
from mdstorm_backend.datasets.sample_dataset import SampleDataset
from mdstorm_backend.display import Description
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order import Chunk
from mdstorm_backend.order.chunk import numbers_of
from mdstorm_backend.read import fingerprints_of
from mdstorm_backend.read.block import Located, OpeningShards
from mdstorm_backend.read.made_columns import SampleNumbers


def choose_rows(
    dataset: SampleDataset, rows: Any, where: Any, *, is_shuffled: bool
) -> SampleDataset:
    """Return a dataset that consists of some rows of `dataset`; `dataset` itself without a choice.

    Parameters
    ----------
    dataset : SampleDataset
        The dataset.
    rows : sequence of int, slice, boolean array or None
        Numbers of rows in any order, also repeatedly; a slice; or one boolean for each row.
    where : list of tuple, pyarrow.compute.Expression or None
        Conditions, as `check_where` accepts them; of `rows`, only those that match are chosen.
    is_shuffled : bool
        Whether the order of the rows has no meaning, so that they are sorted.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If an argument has another form, does not match the dataset, or nothing is chosen.
    """
    if rows is None and where is None:
        return dataset
    numbers: SampleNumbers = range(len(dataset))
    if rows is not None:
        numbers = numbers_of_rows(dataset, rows)
    if where is not None:
        among, numbers = numbers, matching_numbers(dataset, numbers, where)
        if not len(numbers):
            raise InvalidArgumentError(
                f"where={conditions_on(dataset, where)} matches none of the {len(among)} rows of "
                f"{dataset.url}: choose at least one"
            )
    chosen = numbers_hash(numbers)
    if is_shuffled and not is_ascending(numbers):
        numbers = as_range(np.sort(as_array(numbers)))
    return ChosenRows(dataset, numbers, chosen, "" if where is None else f"{where}")


def check_choice(dataset: SampleDataset, rows: Any, where: Any) -> None:
    """Raise those errors of `choose_rows` that are known without reading data."""
    if rows is not None:
        numbers_of_rows(dataset, rows)
    if where is not None:
        conditions_on(dataset, where)


class ChosenRows(DatasetView):
    """A dataset that consists of some rows of another dataset, in a given order.

    Parameters
    ----------
    source : SampleDataset
        The other dataset.
    rows : range or numpy.ndarray
        Numbers of the rows, int64, each of them in the dataset.
    chosen : str, optional
        Identifies the rows; by default their hash.
    where : str
        The conditions that chose them, to be shown; empty if there were none.
    """

    def __init__(
        self, source: SampleDataset, rows: SampleNumbers, chosen: str | None = None, where: str = ""
    ) -> None:
        super().__init__(source, _sizes(rows, source).tolist())
        self.rows, self.chosen, self.where = rows, chosen or numbers_hash(rows), where
        self.fingerprint, self.former = fingerprints_of(source, lambda of: f"{of} {self.chosen}")

    def _mdstorm_description(self, *, full: bool) -> Description:
        further = [("chosen from", f"{len(self.source):,} rows")]
        return describe_dataset(self, self.schema if full else None, further=further)

    @property
    def all_rows(self) -> SampleDataset:
        """The dataset with all of its rows."""
        return self.source

    def located(
        self, chunk: Chunk, kept: OpeningShards | None = None, *, is_first: bool = False
    ) -> Located:
        """Find the stored rows of samples."""
        numbers = chunk if isinstance(chunk, range) else numbers_of(chunk)
        found = Located(self.source_numbers(numbers), self.source.bounds, kept, is_first=is_first)
        found.numbered = numbers
        return found

    def stored_numbers(self, numbers: SampleNumbers) -> SampleNumbers:
        """Return the numbers that samples have in the whole dataset."""
        return self.source.stored_numbers(self.source_numbers(numbers))

    def source_numbers(self, numbers: SampleNumbers) -> SampleNumbers:
        """Return the numbers that samples have in the source."""
        rows = self.rows
        if not isinstance(rows, range):
            return (
                rows[numbers.start : numbers.stop] if isinstance(numbers, range) else rows[numbers]
            )
        if not isinstance(numbers, range):
            return rows.start + rows.step * numbers
        found = rows[numbers.start : numbers.stop]
        return found if found.step == 1 else as_array(found)

    def samples_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers of the samples that are rows of the whole dataset, ascending."""
        return np.flatnonzero(np.isin(as_array(self.rows), self.source.samples_of(rows)))

    def locate(self, i: int) -> tuple[int, int]:
        """Return the number of the stored shard that holds sample `i`, and its row there."""
        return self.source.locate(self._row(i))

    def sample(self, i: int, columns: Any = None) -> dict[str, Any]:
        """Return sample `i`."""
        return self.source.sample(self._row(i), columns)

    def _row(self, i: int) -> int:
        if not -len(self) <= i < len(self):
            raise IndexError(f"sample {i} of {len(self)} chosen ones in {self.url}")
        return int(self.rows[i])


def _sizes(rows: SampleNumbers, dataset: SampleDataset) -> npt.NDArray[np.int64]:
    """Return the number of rows in each stored shard or, of others, in parts of a shard's size."""
    count = len(rows)
    if not is_ascending(rows):
        begins = np.arange(0, count, max(dataset.shard_sizes))
    elif isinstance(rows, range):
        begins = np.clip(-(-(dataset.bounds[:-1] - rows.start) // rows.step), 0, count)
    else:
        begins = np.searchsorted(rows, dataset.bounds[:-1])
    return np.diff(np.append(begins, count))
