"""Apply ``filters`` to rows."""

from __future__ import annotations

from mdstorm._selection.predicate_filter import keep_rows
from mdstorm_backend.datasets import Filters
from mdstorm_backend.format import Batch, Schema


class RowFilter:
    """A `Transform` that keeps only the rows that match the filters.

    The conditions apply to stored values: a null matches only None, even if it is filled.

    Parameters
    ----------
    filters : Filters
        The conditions.
    schema : Schema
        The columns of the dataset.

    Attributes
    ----------
    columns : tuple of str
        The columns that the conditions use.
    """

    def __init__(self, filters: Filters, schema: Schema) -> None:
        self.columns = tuple(sorted(filters.fields))
        self.filters = filters
        self._schema = schema.select(self.columns)

    def __call__(self, batch: Batch) -> Batch:
        """Return the matching rows of a batch that was read with exact nulls."""
        return keep_rows(batch, self.filters.mask(batch, self._schema))
