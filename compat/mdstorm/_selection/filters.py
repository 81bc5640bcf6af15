"""pyarrow-style ``filters``: which rows match, and which row groups can contain a match."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm._selection.described import shortened, text_of
from mdstorm._selection.predicate_filter import Mask, keep_rows
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.base import choose_among
from mdstorm_backend.format import Batch, Column, Schema, Values, are_null, as_arrow
from mdstorm_backend.loaders import NullPolicy

#: Names of functions in `pyarrow.compute`, by operator.
_COMPARISONS = {
    "=": "equal",
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    ">": "greater",
    "<=": "less_equal",
    ">=": "greater_equal",
}
_MEMBERSHIPS = ("in", "not in")
#: Whether a comparison with `value` can be true for any column value between two bounds.
_POSSIBLE: dict[str, Callable[[Any, Any, Any], bool]] = {
    "=": lambda value, lowest, highest: lowest <= value <= highest,
    "==": lambda value, lowest, highest: lowest <= value <= highest,
    "in": lambda value, lowest, highest: lowest <= value <= highest,
    "<": lambda value, lowest, highest: lowest < value,
    ">": lambda value, lowest, highest: highest > value,
    "<=": lambda value, lowest, highest: lowest <= value,
    ">=": lambda value, lowest, highest: highest >= value,
}
#: Types whose values have the same order in Python and in Arrow.
_ORDERED = (str, datetime.date, Decimal)
#: The largest integer up to which float64 represents all integers exactly.
_EXACT = 1 << 53
_FORM = (
    "filters are a list of tuples (column, operator, value), all of which must hold, or a list "
    f"of such lists, one of which must; operators are {', '.join([*_COMPARISONS, *_MEMBERSHIPS])}"
)


@dataclass(frozen=True)
class Filters:
    """Conditions in disjunctive normal form.

    Attributes
    ----------
    alternatives : tuple of tuple of Term
        At least one alternative must hold; an alternative holds if all of its terms do.
    """

    alternatives: tuple[tuple[Term, ...], ...]

    @classmethod
    def of(cls, filters: Any, schema: Schema, partition_columns: Iterable[str] = ()) -> Filters:
        """Parse the filters that the user passed.

        Parameters
        ----------
        filters : list of tuple, or list of list of tuple
            Filters as in pyarrow's ``ParquetDataset``.
        schema : Schema
            All columns of the dataset.
        partition_columns : iterable of str
            Hive partition columns. They have no declared type, so a number matches its string.

        Raises
        ------
        InvalidArgumentError
            If the filters are malformed or refer to a column that does not exist.
        """
        partitions = set(partition_columns)
        terms = ([_term(item, schema, partitions) for item in a] for a in _alternatives(filters))
        return cls(tuple(map(tuple, terms)))

    @property
    def fields(self) -> frozenset[str]:
        """The columns that the conditions use."""
        return frozenset(term.column for terms in self.alternatives for term in terms)

    def holds(self, term_holds: Callable[[Term], Mask]) -> Mask:
        """Combine the results that `term_holds` returns for the individual terms."""
        alternatives = (
            reduce(np.logical_and, map(term_holds, terms)) for terms in self.alternatives
        )
        return reduce(np.logical_or, alternatives)

    def described(self) -> str:
        """Return the conditions as a string that does not depend on their order."""
        alternatives = [" and ".join(sorted(map(str, terms))) for terms in self.alternatives]
        return shortened(" or ".join(sorted(alternatives)))


class RowFilter:
    """A `Transform` that keeps only the rows that match the filters, and then handles nulls.

    The conditions apply to stored values: a null matches only None, even if it is filled, and NaN
    is a number, as in pyarrow.

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
        return self._nulls(keep_rows(batch, self.mask(batch)))

    def mask(self, batch: Batch) -> Mask:
        """Return a mask of the matching rows in a batch that was read with exact nulls."""
        schema, fields = self._nulls.schema, self.filters.fields
        arrays = {name: _comparable(batch[name], schema[name]) for name in fields}
        return self.filters.holds(lambda term: term.holds(arrays[term.column]))


@dataclass(frozen=True)
class Term:
    """One condition: a comparison of a column with a value or a list of values.

    Attributes
    ----------
    column : str
        Name of a column.
    operator : str
        One of pyarrow's operators.
    value : object
        The value to compare the column with; a list for ``in`` and ``not in``. None is null.
    is_partition : bool
        Whether the column is a partition column. Directory names have no declared type, so
        `value` is converted to the column's type before the comparison.
    """

    column: str
    operator: str
    value: Any
    is_partition: bool = False

    def __str__(self) -> str:
        operator = "=" if self.operator == "==" else self.operator
        value = set(self.value) if isinstance(self.value, list) else self.value
        return f"{self.column} {operator} {text_of(value)}"

    def holds(self, values: pa.Array) -> Mask:
        """Return a mask of the matching values.

        As in pyarrow, nulls match only comparisons with None, and ``not in``.

        Raises
        ------
        InvalidArgumentError
            If the values cannot be compared with the term's value.
        """
        try:
            if self.operator in _MEMBERSHIPS:
                is_in = _is_in(values, [self._like(each, values.type) for each in self.value])
                found = is_in if self.operator == "in" else pc.invert(is_in)
            else:
                found = _compare(self.operator, values, self._like(self.value, values.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"filters cannot compare column {self.column!r} of type {values.type} with "
                f"{self.value!r} ({error}): pass a value of the column's type"
            ) from error
        return np.asarray(pc.fill_null(found, False))

    def may_hold(self, lowest: Any, highest: Any) -> bool:
        """Whether the condition can hold for a value between two bounds, or for null."""
        if self.operator not in _POSSIBLE:
            return True
        several = self.value if self.operator == "in" else [self.value]
        possible = _POSSIBLE[self.operator]
        return any(
            not _are_comparable(value, lowest) or possible(value, lowest, highest)
            for value in several
        )

    def _like(self, value: Any, type_: pa.DataType) -> Any:
        """Return `value`, converted for comparison with a column of type `type_` if needed."""
        if not self.is_partition or value is None:
            return value
        if pa.types.is_string(type_):
            return str(value)
        if not isinstance(value, str):
            return value
        if pa.types.is_integer(type_):
            return int(value)
        return pa.array([value]).cast(type_)[0].as_py()  # a table's typed partition column


def _compare(operator: str, values: pa.Array, value: Any) -> pa.Array:
    if value is None and operator in ("=", "==", "!="):
        return values.is_valid() if operator == "!=" else values.is_null()
    scalar = pa.scalar(value)
    if _is_date_of_timestamp(scalar.type, values.type):  # Arrow requires a cast
        scalar = scalar.cast(values.type)
    return getattr(pc, _COMPARISONS[operator])(values, scalar)


def _is_in(values: pa.Array, wanted: Sequence[Any]) -> pa.Array:
    try:
        found = pa.array(wanted)
        if _is_held_by(found.type, values.type):
            # The cast raises an error for values that the column cannot contain, such as 2.5 in an
            # integer column.
            return pc.is_in(values, value_set=found.cast(values.type))
    except (pa.ArrowInvalid, TypeError):
        pass
    each = (_compare("=", values, value) for value in wanted)
    return reduce(pc.or_, (pc.fill_null(found, False) for found in each))


def _is_held_by(type_: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of `type_` may be cast to `other` for comparison."""
    if type_ == other or pa.types.is_null(type_) or _is_date_of_timestamp(type_, other):
        return True
    return all(
        pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)
        for t in (type_, other)
    )


def _is_date_of_timestamp(type_: pa.DataType, other: pa.DataType) -> bool:
    return bool(pa.types.is_date(type_) and pa.types.is_timestamp(other))


def _are_comparable(value: Any, bound: Any) -> bool:
    """Whether Python compares a value with a bound the way Arrow does."""
    numbers = isinstance(value, (int, float)) and isinstance(bound, (int, float))
    if numbers and isinstance(value, float) != isinstance(bound, float):
        return bool(max(abs(value), abs(bound)) <= _EXACT)
    return numbers or (type(value) is type(bound) and isinstance(value, _ORDERED))


def _comparable(values: Values, column: Column) -> pa.Array:
    """Return an Arrow array, with times in UTC.

    Arrays and other values that can be compared only with None become True, or null.
    """
    if not _is_comparable(column):
        return pa.array(np.ones(len(values), bool), mask=are_null(values))
    if isinstance(values, np.ndarray) and values.dtype == object:
        return pa.array(values.tolist())
    return _in_utc(as_arrow(values))


def _is_comparable(column: Column) -> bool:
    """Whether values of a column can be compared with other values than None."""
    return not (column.is_late or pa.types.is_nested(column.arrow_type))


def _in_utc(array: pa.Array) -> pa.Array:
    """Convert timestamps to UTC without a time zone; return anything else unchanged."""
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
        raise InvalidArgumentError(f"filters contain {item!r}: {_FORM}")
    name, operator, value = item
    if operator not in _COMPARISONS and operator not in _MEMBERSHIPS:
        raise InvalidArgumentError(f"filters contain the operator {operator!r}: {_FORM}")
    column = schema.get(name)
    if column is None:
        raise InvalidArgumentError(
            f"filters refer to a column {name!r} that the dataset does not have"
            f"{choose_among(name, schema.names)}"
        )
    asks_for_nulls = value is None and _COMPARISONS.get(operator) in ("equal", "not_equal")
    if not (asks_for_nulls or _is_comparable(column)):
        raise InvalidArgumentError(
            f"filters refer to column {name!r} of type {column.arrow_type}, whose values can be "
            "compared only with None, by = or !=: use a predicate"
        )
    if operator not in _MEMBERSHIPS:
        value = _plain(value)
    elif not isinstance(value, (str, bytes)) and isinstance(value, Iterable):
        value = [_plain(each) for each in value]
    else:
        raise InvalidArgumentError(
            f"filters compare column {name!r} by {operator!r} with {value!r}: pass a list of values"
        )
    term = Term(name, operator, value, name in partitions)
    term.holds(_in_utc(pa.array([], column.arrow_type)))  # raises an error if not comparable
    return term


def _plain(value: Any) -> Any:
    """Return a value as a Python object, with times in UTC."""
    if isinstance(value, np.generic):
        is_precise = isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "ns"
        value = (value.astype("datetime64[us]") if is_precise else value).item()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return value
