"""Skip row groups that cannot hold a matching row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mdstorm._selection.filter_terms import Mask, Term
from mdstorm._selection.filters import Filters
from mdstorm._selection.predicate_filter import PredicateFilter
from mdstorm_backend.format import Batch
from mdstorm_backend.parquet import Bounds, ParquetDataset, value_bounds
from mdstorm_backend.read import SampleSource


def prune_by_filters(source: SampleSource, filters: Filters) -> tuple[SampleSource, bool]:
    """Leave out the row groups in which no row can match filters.

    Parameters
    ----------
    source : SampleSource
        The dataset; returned unchanged if it knows nothing about its shards.
    filters : Filters
        The conditions.

    Returns
    -------
    source : SampleSource
        What is left to read.
    done : bool
        Whether the conditions hold for all rows of it.
    """
    if not isinstance(source, ParquetDataset):
        return source, False
    partitions = set(source.partition_columns)
    left = _matching(source, filters, [])
    others = sorted(filters.fields - partitions)
    if not others:
        return left, True
    return _matching(left, filters, value_bounds(left, others)), False


def _matching(source: ParquetDataset, filters: Filters, bounds: list[Bounds]) -> ParquetDataset:
    """Keep the row groups in which filters can hold, judging by partitions and any bounds."""
    partitions = _partitions(source)

    def may_hold(term: Term) -> Mask:
        if term.column in partitions:
            return term.holds(partitions[term.column])
        found = (
            term.column not in each or term.may_hold(*each[term.column])
            for each in bounds or [{}] * len(source.row_groups)
        )
        return np.fromiter(found, np.bool_, len(source.row_groups))

    return source.with_row_groups(np.flatnonzero(filters.holds(may_hold)).tolist())


def prune_by_predicate(
    source: SampleSource, predicate: PredicateFilter
) -> tuple[SampleSource, bool]:
    """Leave out the row groups from which a predicate on partition columns includes no row.

    Returns
    -------
    source : SampleSource
        What is left to read.
    done : bool
        Whether the predicate includes all rows of it; False if it looks at other columns too.
    """
    if not isinstance(source, ParquetDataset) or not predicate.fields <= set(
        source.partition_columns
    ):
        return source, False
    found: Batch = dict(_partitions(source))
    return source.with_row_groups(np.flatnonzero(predicate.mask(found)).tolist()), True


def _partitions(source: ParquetDataset) -> dict[str, pa.Array]:
    """Return the values of the partition columns in each row group."""
    return {
        name: pa.array(
            [group.partition[name] for group in source.row_groups], source.schema[name].arrow_type
        )
        for name in source.partition_columns
    }
