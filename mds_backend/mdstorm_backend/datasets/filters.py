"""Conditions on columns, as ``filters=`` and ``where=`` take them.

`Filters` are conditions in the form of pyarrow's ``filters``. They decide which rows match, and
whether a row can match whose values are between two bounds. Of an `Expression`, which is the other
form of ``where=``, only the former is known.
"""

from __future__ import annotations

import datetime
import pickle
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.base import choose_among, is_integer
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.format import Column, Schema, Values, are_null, as_arrow

Mask = npt.NDArray[np.bool_]

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
_OPERATORS = (*_COMPARISONS, *_MEMBERSHIPS)
#: Whether a comparison with `value` can be true for any column value between two bounds.
_POSSIBLE: dict[str, Callable[[Any, Any, Any], bool]] = {
    "=": lambda value, lowest, highest: lowest <= value <= highest,
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
    "pass a list of tuples (column, operator, value), all of which must hold, or a list of such "
    f"lists, one of which must; operators are {', '.join(_OPERATORS)}"
)


def check_where(name: str, where: Any) -> None:
    """Raise an error unless `where` is None, an expression, or conditions like ``filters=``.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If it is something else.
    """
    if where is None or isinstance(where, pc.Expression):
        return
    if _is_mask(where):
        values = np.atleast_1d(where)
        raise ArgumentTypeError(
            f"{name} takes conditions, found {len(values)} values of {values.dtype}: pass a mask "
            "as rows="
        )
    if not isinstance(where, (list, tuple)):
        raise ArgumentTypeError(
            f"{name}={where!r}: {_FORM}. It can also be an expression such as "
            'pyarrow.compute.field("x") > 3'
        )
    _alternatives(name, where)


def _is_mask(where: Any) -> bool:
    """Whether a value is a mask, or numbers of rows, which `rows` takes."""
    first = where[0] if isinstance(where, (list, tuple)) and where else where
    return not isinstance(first, (list, tuple)) and np.asarray(first).dtype.kind in "biu"


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
    def of(
        cls,
        name: str,
        conditions: Any,
        schema: Schema,
        url: str = "the dataset",
    ) -> Filters:
        """Parse the conditions that the user passed.

        Parameters
        ----------
        name : str
            Name of the argument, for messages.
        conditions : list of tuple, or list of list of tuple
            Filters as in pyarrow's ``ParquetDataset``.
        schema : Schema
            All columns of the dataset.
        url : str
            The dataset, for messages.

        Raises
        ------
        InvalidArgumentError
            If the conditions are malformed, refer to a column that does not exist, or compare it
            with a value of another type.
        """
        return cls(
            tuple(
                tuple(_term(name, item, schema, url) for item in items)
                for items in _alternatives(name, conditions)
            )
        )

    @property
    def fields(self) -> frozenset[str]:
        """The columns that the conditions use."""
        return frozenset(term.column for terms in self.alternatives for term in terms)

    @property
    def identity(self) -> bytes:
        """Identifies the conditions in all processes."""
        return repr(self).encode()

    def __str__(self) -> str:
        """Return the conditions as a string that does not depend on their order."""
        alternatives = [" and ".join(sorted(map(str, terms))) for terms in self.alternatives]
        return " or ".join(sorted(alternatives))

    def holds(self, term_holds: Callable[[Term], Mask]) -> Mask:
        """Combine the results that `term_holds` returns for the individual terms."""
        alternatives = (
            reduce(np.logical_and, map(term_holds, terms)) for terms in self.alternatives
        )
        return reduce(np.logical_or, alternatives)

    def mask(self, batch: Mapping[str, Values], schema: Schema) -> Mask:
        """Return a mask of the matching rows in a batch with exact nulls.

        A null matches only None, and ``not in``. NaN is a number, as in pyarrow.
        """
        arrays = {name: _comparable(batch[name], schema[name]) for name in self.fields}
        return self.holds(lambda term: term.holds(arrays[term.column]))


@dataclass(frozen=True)
class Term:
    """One condition: a comparison of a column with a value or a list of values.

    Attributes
    ----------
    column : str
        Name of a column.
    operator : str
        One of pyarrow's operators, ``=`` for ``==``.
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
        value = self.value
        text = f"[{', '.join(sorted(map(_text, set(value))))}]" if type(value) is list else None
        return f"{self.column} {self.operator} {text or _text(value)}"

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
                is_match = is_in if self.operator == "in" else pc.invert(is_in)
            else:
                is_match = _compare(self.operator, values, self._like(self.value, values.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"the condition {(self.column, self.operator, self.value)!r} cannot compare column "
                f"{self.column!r} of type {values.type}: {self._remedy(values.type, error)}"
            ) from error
        return np.asarray(pc.fill_null(is_match, False))

    def _remedy(self, type_: pa.DataType, error: Exception) -> str:
        """Return what to write instead of a condition that cannot be compared."""
        in_list = {"=": "in", "!=": "not in"}.get(self.operator)
        if in_list and isinstance(self.value, (list, tuple)):
            return f"for a list, use {in_list!r}: {(self.column, in_list, self.value)!r}"
        if isinstance(self.value, str) and (
            pa.types.is_timestamp(type_) or pa.types.is_date(type_)
        ):
            kind = datetime.date if pa.types.is_date(type_) else datetime.datetime
            try:
                return f"pass {kind.fromisoformat(self.value)!r}"
            except ValueError:
                return f"pass a datetime.{kind.__name__}"
        if pa.types.is_duration(type_):
            return "pass a datetime.timedelta"
        return f"pass a value of the column's type ({error})"

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
        if type(value) is datetime.date and pa.types.is_timestamp(type_):
            return datetime.datetime.combine(value, datetime.time())
        if not self.is_partition or value is None:
            return value
        if pa.types.is_string(type_):
            return str(value)
        if not isinstance(value, str):
            return value
        if pa.types.is_integer(type_):
            return int(value)
        return pa.array([value]).cast(type_)[0].as_py()  # a table's typed partition column


#: Arrow's error for an unknown column, which continues with the schema.
_UNKNOWN_FIELD = re.compile(r"(No match for FieldRef\.Name\((.+?)\)) in ")


@dataclass(frozen=True)
class Expression:
    """A `pyarrow.compute.Expression` over the columns of a dataset.

    Attributes
    ----------
    expression : pyarrow.compute.Expression
        The expression.
    fields : frozenset of str
        The columns that it uses.
    unit : str or None
        The unit in which it compares times; None for that of the columns. Files may store another
        one, and pyarrow compares times of different zones only if their units are equal.
    """

    expression: Any
    fields: frozenset[str]
    unit: str | None = None

    @classmethod
    def of(cls, name: str, expression: Any, schema: Schema, url: str) -> Expression:
        """Check an expression that the user passed; see `Filters.of` for the arguments.

        Raises
        ------
        InvalidArgumentError
            If it cannot be evaluated over the columns.
        UnsupportedEncodingError, UnsupportedTableError
            If it uses a column that cannot be read.
        """
        readable = schema.readable
        # pyarrow compares the time zones of its operands only if there are rows.
        nulls = pa.table({field.name: pa.nulls(1, field.type) for field in readable.arrow_schema})
        units = [unit for unit in (None, *_UNITS) if _can_filter(nulls, expression, unit)]
        try:
            if not units:
                schema.check_readable(_named_in(expression, schema), url)
                _ = nulls.filter(expression)
        except _UNFIT as error:
            shown, reason = (" ".join(str(one).split()) for one in (expression, error))
            unknown = _UNKNOWN_FIELD.match(reason)
            remedy = f". Use values of the types of its columns {list(schema.names)}"
            if unknown is not None:
                reason, remedy = unknown[1], choose_among(unknown[2], schema.names)
            raise InvalidArgumentError(
                f"{name}={shown} cannot be evaluated over {url}: {reason}{remedy}"
            ) from error
        names = _named_in(expression, readable)
        return cls(expression, frozenset(names or readable.names), units[0])

    @property
    def identity(self) -> bytes:
        """Identifies the expression; its text would leave out some of many values."""
        return pickle.dumps(self.expression)

    def __str__(self) -> str:
        return " ".join(str(self.expression).split())

    def mask(self, batch: pa.RecordBatch, _schema: Schema) -> Mask:
        """Return a mask of the matching rows in a batch."""
        rows = pa.array(np.arange(len(batch)))
        table = _with_times(pa.Table.from_batches([batch]), self.unit).append_column(_ROW, rows)
        matching = table.filter(self.expression)
        found = np.zeros(len(batch), np.bool_)
        found[matching[_ROW].to_numpy()] = True
        return found


def _named_in(expression: Any, schema: Schema) -> list[str]:
    """Return the columns that an expression names.

    A name may also occur as a value; reading its column does no harm.
    """
    text, word = str(expression), r"(?<!\w){}(?!\w)"
    return [name for name in schema.names if re.search(word.format(re.escape(name)), text)]


#: Name of the column that numbers the rows.
_ROW = "mdstorm: row"
#: Units of times other than that of the columns, and pyarrow's errors for values that do not fit.
_UNITS = ("ns", "ms", "s")
_UNFIT = (pa.ArrowException, TypeError, ValueError, KeyError, OverflowError)


def _can_filter(table: pa.Table, expression: Any, unit: str | None) -> bool:
    try:
        _ = _with_times(table, unit).filter(expression)
    except _UNFIT:
        return False
    return True


def _with_times(table: pa.Table, unit: str | None) -> pa.Table:
    """Return a table with its times in a unit; None leaves them unchanged."""
    if unit is None:
        return table
    fields = (
        field.with_type(pa.timestamp(unit, field.type.tz))
        if pa.types.is_timestamp(field.type)
        else field
        for field in table.schema
    )
    return table.cast(pa.schema(list(fields)))


def _compare(operator: str, values: pa.Array, value: Any) -> pa.Array:
    if value is None and operator in ("=", "!="):
        return values.is_valid() if operator == "!=" else values.is_null()
    if pa.types.is_uint64(values.type) and is_integer(value):
        # Arrow would convert both to int64, and refuse values that do not fit.
        values, value = values.cast(pa.decimal128(20)), Decimal(int(value))
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
    return getattr(pc, _COMPARISONS[operator])(values, scalar)


def _is_in(values: pa.Array, wanted: Sequence[Any]) -> pa.Array:
    try:
        members = pa.array(wanted)
        if _is_held_by(members.type, values.type):
            # The cast raises an error for values that the column cannot contain, such as 2.5 in an
            # integer column.
            return pc.is_in(values, value_set=members.cast(values.type))
    except (pa.ArrowInvalid, TypeError, OverflowError):
        pass
    each = (_compare("=", values, value) for value in wanted)
    return reduce(pc.or_, (pc.fill_null(is_equal, False) for is_equal in each))


def _is_held_by(type_: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of `type_` may be cast to `other` for comparison."""
    if type_ == other or pa.types.is_null(type_):
        return True
    return all(
        pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)
        for t in (type_, other)
    )


def _are_comparable(value: Any, bound: Any) -> bool:
    """Whether Python compares a value with a bound the way Arrow does."""
    numbers = isinstance(value, (int, float)) and isinstance(bound, (int, float))
    if numbers and isinstance(value, float) != isinstance(bound, float):
        return bool(max(abs(value), abs(bound)) <= _EXACT)
    is_nan = value != value  # which `in` finds, although it is not equal to itself
    return (numbers and not is_nan) or (type(value) is type(bound) and isinstance(value, _ORDERED))


def _comparable(values: Values, column: Column) -> pa.Array:
    """Return an Arrow array, with times in UTC.

    Arrays and other values that can be compared only with None become True, or null.
    """
    if not _is_comparable(column):
        return pa.array(np.ones(len(values), bool), mask=are_null(values))
    if isinstance(values, np.ndarray) and values.dtype == object:
        return pa.array(values.tolist())
    array = as_arrow(values)
    if pa.types.is_duration(column.arrow_type):  # which batches hold as integers
        return array.cast(column.arrow_type)
    return _in_utc(array)


def _is_comparable(column: Column) -> bool:
    """Whether values of a column can be compared with other values than None."""
    return not (column.is_late or pa.types.is_nested(column.arrow_type))


def _in_utc(array: pa.Array) -> pa.Array:
    """Convert timestamps to UTC without a time zone; return anything else unchanged."""
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        return array.cast(pa.timestamp(array.type.unit))
    return array


def _alternatives(name: str, conditions: Any) -> list[list[Any]]:
    """Return the conditions of each alternative, whose form has been checked."""
    alternatives = conditions if isinstance(conditions, (list, tuple)) else []
    if all(isinstance(item, tuple) and item and isinstance(item[0], str) for item in alternatives):
        alternatives = [alternatives]
    if not all(isinstance(items, (list, tuple)) and items for items in alternatives):
        raise InvalidArgumentError(f"{name}={conditions!r}: {_FORM}")
    for item in chain.from_iterable(alternatives):
        is_triple = isinstance(item, (tuple, list)) and len(item) == 3 and isinstance(item[0], str)
        if not is_triple or item[1] not in _OPERATORS:
            raise InvalidArgumentError(f"{name}= has the condition {item!r}: {_FORM}")
        is_several = isinstance(item[2], Iterable) and not isinstance(item[2], (str, bytes))
        if item[1] in _MEMBERSHIPS and not is_several:
            raise InvalidArgumentError(
                f"{name}= has the condition {item!r}: {item[1]!r} needs a list of values"
            )
    return [list(items) for items in alternatives]


def _term(name: str, item: Any, schema: Schema, url: str) -> Term:
    column_name, operator, value = item
    column = schema.get(column_name)
    if column is None:
        raise InvalidArgumentError(
            f"{name}= has the condition {item!r}, but {url} has no column {column_name!r}"
            f"{choose_among(column_name, schema.names)}"
        )
    schema.check_readable([column_name], url)
    if not (_is_comparable(column) or (value is None and operator in ("=", "==", "!="))):
        raise InvalidArgumentError(
            f"{name}= has the condition {item!r}, but column {column.name!r} of type "
            f"{column.arrow_type} can be compared only with None, by = or !=: use a predicate"
        )
    # A set of strings has another order in each process.
    value = sorted(map(_plain, value), key=repr) if operator in _MEMBERSHIPS else _plain(value)
    operator = "=" if operator == "==" else operator
    term = Term(column.name, operator, value, column.origin.is_partition)
    term.holds(_in_utc(pa.array([], column.arrow_type)))  # raises an error if not comparable
    return term


def _plain(value: Any) -> Any:
    """Return a value as a Python object, with times in UTC; nanoseconds stay Arrow's scalars."""
    if isinstance(value, pa.TimestampScalar) and value.is_valid:
        value = value.cast(pa.timestamp(value.type.unit))
        if value.type.unit == "ns" and value.value % 1000:
            return value
        value = value.cast(pa.timestamp("us"))
    if isinstance(value, pa.Scalar):
        return value.as_py()
    if isinstance(value, np.generic):
        is_precise = isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "ns"
        value = (value.astype("datetime64[us]") if is_precise else value).item()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return value


def _text(value: Any) -> str:
    """Return a value as a string; equal numbers give equal strings."""
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)
