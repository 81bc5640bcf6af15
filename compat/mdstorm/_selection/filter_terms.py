"""One condition of ``filters``: which values match, and which row groups can hold a match."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm.errors import InvalidArgumentError

Mask: TypeAlias = npt.NDArray[np.bool_]

COMPARISONS: dict[str, Callable[..., pa.Array]] = {
    "=": pc.equal,
    "==": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    ">": pc.greater,
    "<=": pc.less_equal,
    ">=": pc.greater_equal,
}
MEMBERSHIPS = ("in", "not in")
#: Whether a comparison with a value can hold for something between two bounds.
_POSSIBLE: dict[str, Callable[[Any, Any, Any], bool]] = {
    "=": lambda value, lowest, highest: lowest <= value <= highest,
    "==": lambda value, lowest, highest: lowest <= value <= highest,
    "in": lambda value, lowest, highest: lowest <= value <= highest,
    "<": lambda value, lowest, highest: lowest < value,
    ">": lambda value, lowest, highest: highest > value,
    "<=": lambda value, lowest, highest: lowest <= value,
    ">=": lambda value, lowest, highest: highest >= value,
}
#: Values that Python and Arrow order alike.
_ORDERED = (str, datetime.date, Decimal)
#: Floating-point numbers have no integers beyond.
_EXACT = 1 << 53


@dataclass(frozen=True)
class Term:
    """One condition.

    Attributes
    ----------
    column : str
        Name of a column.
    operator : str
        One of pyarrow's.
    value : object
        What its values are compared with; a list for ``in`` and ``not in``. None is null.
    is_partition : bool
        Whether it is a partition column: what is in the names of directories has no type of its
        own, so strings are compared as what they say in the type of the column.
    """

    column: str
    operator: str
    value: Any
    is_partition: bool = False

    def holds(self, values: pa.Array) -> Mask:
        """Return for each value whether the condition holds.

        For nulls only comparisons with None, and ``not in``, hold, as in pyarrow.

        Raises
        ------
        InvalidArgumentError
            If the values cannot be compared with this one.
        """
        try:
            found = self._holds(values)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(
                f"filters cannot compare column {self.column!r} of type {values.type} with "
                f"{self.value!r} ({error}): pass a value of the column's type"
            ) from error
        return np.asarray(pc.fill_null(found, False))

    def may_hold(self, lowest: Any, highest: Any) -> bool:
        """Whether the condition can hold for a value between two others, or for a null."""
        if self.operator not in _POSSIBLE:
            return True
        several = self.value if self.operator == "in" else [self.value]
        possible = _POSSIBLE[self.operator]
        return any(
            not _are_comparable(value, lowest) or possible(value, lowest, highest)
            for value in several
        )

    def _holds(self, values: pa.Array) -> pa.Array:
        if self.operator in MEMBERSHIPS:
            found = _is_in(values, [self._like(each, values.type) for each in self.value])
            return found if self.operator == "in" else pc.invert(found)
        value = self._like(self.value, values.type)
        return _compare(self.operator, values, value)

    def _like(self, value: Any, type_: pa.DataType) -> Any:
        """Return the value to compare a column of some type with."""
        if not self.is_partition or value is None:
            return value
        if pa.types.is_string(type_):
            return str(value)
        if not isinstance(value, str):
            return value
        if pa.types.is_integer(type_):
            return int(value)
        return pa.array([value]).cast(type_)[0].as_py()  # of a table


def _compare(operator: str, values: pa.Array, value: Any) -> pa.Array:
    if value is None and operator in ("=", "==", "!="):
        return values.is_valid() if operator == "!=" else values.is_null()
    return COMPARISONS[operator](values, _scalar(value, values.type))


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    scalar = pa.scalar(value)
    # Arrow compares dates with timestamps only if they are told to be such.
    return scalar.cast(type_) if _is_date_of_timestamp(scalar.type, type_) else scalar


def _is_in(values: pa.Array, wanted: Sequence[Any]) -> pa.Array:
    try:
        found = pa.array(wanted)
        if _is_held_by(found.type, values.type):
            # A cast refuses what cannot be equal to any value: 2.5 where there are integers.
            return pc.is_in(values, value_set=found.cast(values.type))
    except (pa.ArrowInvalid, TypeError):
        pass
    each = (_compare("=", values, value) for value in wanted)
    return reduce(pc.or_, (pc.fill_null(found, False) for found in each))


def _is_held_by(type_: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of a type may be cast to another one to be compared."""
    if type_ == other or pa.types.is_null(type_) or _is_date_of_timestamp(type_, other):
        return True
    return all(
        pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)
        for t in (type_, other)
    )


def _is_date_of_timestamp(type_: pa.DataType, other: pa.DataType) -> bool:
    return bool(pa.types.is_date(type_) and pa.types.is_timestamp(other))


def _are_comparable(value: Any, bound: Any) -> bool:
    """Whether Python compares a value with a bound as Arrow does it."""
    numbers = isinstance(value, (int, float)) and isinstance(bound, (int, float))
    if numbers and isinstance(value, float) != isinstance(bound, float):
        return bool(max(abs(value), abs(bound)) <= _EXACT)
    return numbers or (type(value) is type(bound) and isinstance(value, _ORDERED))
