"""``filters``: pyarrow-style conditions that skip row groups and drop rows."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm._selection.filter_terms import COMPARISONS, MEMBERSHIPS, Mask, Term
from mdstorm._selection.predicate_filter import keep_rows
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.format import Batch, Column, Schema, Values, as_arrow

_FORM = (
    "filters are a list of tuples (column, operator, value), all of which must hold, or a list "
    f"of such lists, one of which must; operators are {', '.join([*COMPARISONS, *MEMBERSHIPS])}"
)


@dataclass(frozen=True)
class Filters:
    """Conditions in disjunctive normal form.

    Attributes
    ----------
    alternatives : tuple of tuple of Term
        One of them must hold, with all of its terms.
    """

    alternatives: tuple[tuple[Term, ...], ...]

    @classmethod
    def of(cls, filters: Any, schema: Schema, partition_columns: Iterable[str] = ()) -> Filters:
        """Read what the user gave.

        Parameters
        ----------
        filters : list of tuple, or list of list of tuple
            As pyarrow's ``ParquetDataset`` takes them.
        schema : Schema
            All columns of the dataset.
        partition_columns : iterable of str
            Hive partition columns, which have no type of their own: numbers and strings compare
            as equal.

        Raises
        ------
        InvalidArgumentError
            If they are something else, or name a column that does not exist.
        """
        partitions = set(partition_columns)
        alternatives = tuple(
            tuple(_term(item, schema, partitions) for item in alternative)
            for alternative in _alternatives(filters)
        )
        return cls(alternatives)

    @property
    def fields(self) -> frozenset[str]:
        """Columns that the conditions look at."""
        return frozenset(term.column for terms in self.alternatives for term in terms)

    def holds(self, term_holds: Callable[[Term], Mask]) -> Mask:
        """Combine the results of single terms."""
        alternatives = (
            reduce(np.logical_and, map(term_holds, terms)) for terms in self.alternatives
        )
        return reduce(np.logical_or, alternatives)


class RowFilter:
    """A `Transform` that keeps only the rows that match filters.

    Parameters
    ----------
    filters : Filters
        The conditions.
    schema : Schema
        The columns that are read, at least those that the conditions look at.

    Attributes
    ----------
    columns : tuple of str
        The columns, all of them.
    """

    def __init__(self, filters: Filters, schema: Schema) -> None:
        self.columns = schema.names
        self.filters = filters
        self._schema = schema

    def __call__(self, batch: Batch) -> Batch:
        """Return the rows for which the conditions hold; the same batch if those are all."""
        return keep_rows(batch, self.mask(batch))

    def mask(self, batch: Batch) -> Mask:
        """Return for each row of a batch whether the conditions hold."""
        arrays = {name: _exact(batch[name], self._schema.get(name)) for name in self.filters.fields}
        return self.filters.holds(lambda term: term.holds(arrays[term.column]))


def _exact(values: Values, column: Column | None) -> pa.Array:
    """Return a column as Arrow: times in UTC, and NaN as null where the column holds nulls."""
    if isinstance(values, np.ndarray) and values.dtype == object:
        return pa.array(values.tolist())
    array = _in_utc(as_arrow(values))
    if column is None or not column.null_count or not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(None, array.type), array)


def _in_utc(array: pa.Array) -> pa.Array:
    """Return timestamps without their time zone, which is UTC; anything else unchanged."""
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        return array.cast(pa.timestamp(array.type.unit))
    return array


def _alternatives(filters: Any) -> list[list[Any]]:
    if not isinstance(filters, (list, tuple)) or not filters:
        raise InvalidArgumentError(f"filters={filters!r}: {_FORM}")
    if all(isinstance(item, tuple) and item and isinstance(item[0], str) for item in filters):
        return [list(filters)]
    if all(isinstance(item, (list, tuple)) and item for item in filters):
        return [list(item) for item in filters]
    raise InvalidArgumentError(f"filters={filters!r}: {_FORM}")


def _term(item: Any, schema: Schema, partitions: set[str]) -> Term:
    if not isinstance(item, (tuple, list)) or len(item) != 3 or not isinstance(item[0], str):
        raise InvalidArgumentError(f"filters hold {item!r}: {_FORM}")
    name, operator, value = item
    if operator not in COMPARISONS and operator not in MEMBERSHIPS:
        raise InvalidArgumentError(f"filters hold the operator {operator!r}: {_FORM}")
    column = schema.get(name)
    if column is None:
        raise InvalidArgumentError(
            f"filters name a column {name!r} that the dataset does not have: choose among "
            f"{list(schema.names)}"
        )
    if column.is_late or pa.types.is_nested(column.arrow_type):
        raise InvalidArgumentError(
            f"filters name column {name!r} of type {column.arrow_type}, whose values cannot be "
            "compared: use a predicate"
        )
    if operator not in MEMBERSHIPS:
        value = _plain(value)
    elif not isinstance(value, (str, bytes)) and isinstance(value, Iterable):
        value = [_plain(each) for each in value]
    else:
        raise InvalidArgumentError(
            f"filters compare column {name!r} by {operator!r} with {value!r}: pass a list of values"
        )
    term = Term(name, operator, value, name in partitions)
    term.holds(_in_utc(pa.array([], column.arrow_type)))  # refuses what it cannot compare
    return term


def _plain(value: Any) -> Any:
    """Return a value as a Python object; times in UTC."""
    if isinstance(value, np.generic):
        is_precise = isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "ns"
        value = (value.astype("datetime64[us]") if is_precise else value).item()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return value
