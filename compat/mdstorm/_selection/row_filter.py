"""Apply ``filters`` to rows."""

from __future__ import annotations

from mdstorm._selection.predicate_filter import keep_rows
from mdstorm_backend.datasets import Filters
from mdstorm_backend.format import Batch
from mdstorm_backend.read import NullPolicy


class RowFilter:
    """A `Transform` that keeps only the rows that match the filters, and then handles nulls.

    The conditions apply to stored values: a null matches only None, even if it is filled.

    Parameters
    ----------
    filters : Filters
        The conditions.
    nulls : NullPolicy
        How the nulls in matching rows are filled and masked. Its schema has all columns that are
        read, including those that the conditions use.

    Attributes
    ----------
    columns : tuple of str
        All columns that are read, and the masks.
    """

    handles_nulls = True

    def __init__(self, filters: Filters, nulls: NullPolicy) -> None:
        self.columns = nulls.columns
        self.filters = filters
        self._nulls = nulls

    def __call__(self, batch: Batch) -> Batch:
        """Return the matching rows of a batch that was read with exact nulls."""
        return self._nulls(keep_rows(batch, self.filters.mask(batch, self._nulls.schema)))
