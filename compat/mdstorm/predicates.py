"""Predicates, which select the rows that a reader returns.

A reader evaluates its predicate once for all the rows it reads from a shard. The classes in this
module use NumPy and Arrow for this; `PredicateBase` explains how your own predicates are called.
The names, arguments and `in_pseudorandom_split` buckets are the same as in
``petastorm.predicates``.
"""

from __future__ import annotations

import abc
import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import check_function, check_list, is_integer
from mdstorm_backend.display import Described

__all__ = [
    "PredicateBase",
    "in_intersection",
    "in_lambda",
    "in_negate",
    "in_pseudorandom_split",
    "in_reduce",
    "in_set",
]


class PredicateBase(Described, abc.ABC):
    """Base class for predicates.

    Subclass it to write your own predicate. The row reader calls `do_include` for each row, with a
    dict of one value per field (NumPy scalars, arrays, Python objects, or None for null). The batch
    reader calls it with a `pandas.DataFrame` of all the rows it reads from a shard, and expects a
    boolean Series or array. If `do_include` returns anything else, or raises AttributeError,
    TypeError or ValueError because it does not support whole columns, it is called for each row, as
    in the row reader.
    """

    @abc.abstractmethod
    def get_fields(self) -> set[str]:
        """Return the names of the fields that `do_include` uses."""

    @abc.abstractmethod
    def do_include(self, values: Any) -> Any:
        """Return whether to keep a row with these values, or a mask if there are several rows."""


class _OfOneField(PredicateBase):
    """Base class for predicates on one field."""

    _predicate_field: str

    def get_fields(self) -> set[str]:
        """Return the name of the field."""
        return {self._predicate_field}


class in_set(_OfOneField):  # noqa: N801  # Petastorm's name, like the other classes'
    """Selects rows where a field has one of the given values.

    Parameters
    ----------
    inclusion_values : iterable of hashable
        The values; None means null.
    predicate_field : str
        The field.
    """

    def __init__(self, inclusion_values: Iterable[Any], predicate_field: str) -> None:
        check_list("inclusion_values", inclusion_values)
        self._inclusion_values = set(as_searched(inclusion_values))
        self._predicate_field = predicate_field

    def do_include(self, values: Mapping[str, Any]) -> bool:
        """Return whether the field's value is one of the given values."""
        return is_among(values[self._predicate_field], self._inclusion_values)


class in_intersection(_OfOneField):  # noqa: N801
    """Selects rows where an array contains at least one of the given values.

    Parameters
    ----------
    inclusion_values : iterable
        The values.
    _predicate_field : str
        The field, which must contain arrays. Nulls are treated as empty arrays.
    """

    def __init__(self, inclusion_values: Iterable[Any], _predicate_field: str) -> None:
        check_list("inclusion_values", inclusion_values)
        self._inclusion_values = as_searched(inclusion_values)
        self._predicate_field = _predicate_field

    def do_include(self, values: Mapping[str, Any]) -> bool:
        """Return whether any element of the field's array is one of the given values.

        Raises
        ------
        InvalidArgumentError
            If the field does not contain arrays.
        """
        array = values[self._predicate_field]
        if array is None:
            return False
        if isinstance(array, np.ndarray):
            array = array.reshape(-1)
        elif not isinstance(array, Iterable):
            raise InvalidArgumentError(
                f"Predicate field should have iterable type: {self._predicate_field!r} holds "
                f"{array!r}. Use in_set for a field of scalars"
            )
        return any(is_among(element, self._inclusion_values) for element in array)


class in_lambda(PredicateBase):  # noqa: N801
    """Selects rows for which a function returns true.

    Parameters
    ----------
    predicate_fields : list of str
        The fields to pass to the function, in this order.
    predicate_func : callable
        Called as ``predicate_func(*values)``, or ``predicate_func(*values, state_arg)``.
        `PredicateBase` explains the types of its arguments and result in each reader.
    state_arg : object, optional
        Last argument to the function. If None, it is not passed.

    Raises
    ------
    InvalidArgumentError
        If `predicate_fields` is not a list.

    Examples
    --------
    >>> even = in_lambda(["id"], lambda id: id % 2 == 0)
    >>> sorted(even.get_fields())
    ['id']
    """

    def __init__(
        self,
        predicate_fields: list[str],
        predicate_func: Callable[..., Any],
        state_arg: Any = None,
    ) -> None:
        if not isinstance(predicate_fields, list):
            raise InvalidArgumentError(
                f"Predicate fields should be a list, found {predicate_fields!r}: pass a list"
            )
        check_function("predicate_func", predicate_func)
        self._predicate_fields = predicate_fields
        self._predicate_func = predicate_func
        self._state_arg = state_arg

    def get_fields(self) -> set[str]:
        """Return the names of the fields."""
        return set(self._predicate_fields)

    def do_include(self, values: Mapping[str, Any]) -> Any:
        """Return the result of the function."""
        state = () if self._state_arg is None else (self._state_arg,)
        return self._predicate_func(*(values[name] for name in self._predicate_fields), *state)


class in_negate(PredicateBase):  # noqa: N801
    """Selects the rows that another predicate excludes.

    Parameters
    ----------
    predicate : PredicateBase
        The other predicate.

    Raises
    ------
    InvalidArgumentError
        If `predicate` is not a predicate.
    """

    def __init__(self, predicate: PredicateBase) -> None:
        _check_derived(predicate)
        self._predicate = predicate

    def get_fields(self) -> set[str]:
        """Return the names of the other predicate's fields."""
        return self._predicate.get_fields()

    def do_include(self, values: Mapping[str, Any]) -> bool:
        """Return whether the other predicate excludes the row."""
        return not self._predicate.do_include(values)


class in_reduce(PredicateBase):  # noqa: N801
    """Selects rows by combining the results of other predicates with a function.

    Parameters
    ----------
    predicate_list : list of PredicateBase
        The other predicates.
    reduce_func : callable
        Function that is called with a list of their results, such as `all` or `any`. Any other
        function gets booleans in the row reader and boolean Series in the batch reader. If it does
        not support Series, it is called for each row.

    Raises
    ------
    InvalidArgumentError
        If an element of the list is not a predicate.

    Examples
    --------
    >>> both = in_reduce([in_set({1, 2}, "id"), in_set({"a"}, "kind")], all)
    >>> both.do_include({"id": 1, "kind": "a"}), both.do_include({"id": 3, "kind": "a"})
    (True, False)
    """

    def __init__(
        self, predicate_list: Sequence[PredicateBase], reduce_func: Callable[[list[Any]], Any]
    ) -> None:
        check_list("predicate_list", predicate_list)
        for predicate in predicate_list:
            _check_derived(predicate)
        check_function("reduce_func", reduce_func)
        self._predicate_list = predicate_list
        self._reduce_func = reduce_func

    def get_fields(self) -> set[str]:
        """Return the names of all predicates' fields."""
        return {name for predicate in self._predicate_list for name in predicate.get_fields()}

    def do_include(self, values: Mapping[str, Any]) -> Any:
        """Return the result of calling the function with the results of all predicates."""
        return self._reduce_func([p.do_include(values) for p in self._predicate_list])


class in_pseudorandom_split(_OfOneField):  # noqa: N801
    """Selects a subset of the rows by a field's hash, so that every run selects the same rows.

    Parameters
    ----------
    fraction_list : sequence of float
        The fraction of rows in each subset, such as ``[0.8, 0.2]``. If the sum is less than 1, the
        remaining rows are not in any subset.
    subset_index : int
        Index of the subset; negative numbers count from the end.
    predicate_field : str
        The field to hash. Rows with equal values are in the same subset.

    Raises
    ------
    InvalidArgumentError
        If there is no such subset, a fraction is negative, or the sum is greater than 1.

    Notes
    -----
    The position of a value is the MD5 hash of ``str(value)`` modulo `sys.maxsize`. The subset
    boundaries are the cumulative sums of the fractions times ``sys.maxsize - 1``. Petastorm
    computes both in the same way, so rows stay in the same subsets.

    Examples
    --------
    >>> train = in_pseudorandom_split([0.8, 0.2], 0, "id")
    >>> test = in_pseudorandom_split([0.8, 0.2], 1, "id")
    >>> [train.do_include({"id": i}) != test.do_include({"id": i}) for i in range(3)]
    [True, True, True]
    """

    def __init__(
        self, fraction_list: Sequence[float], subset_index: int, predicate_field: str
    ) -> None:
        check_list("fraction_list", fraction_list)
        count = len(fraction_list)
        if not is_integer(subset_index) or not -count <= subset_index < count:
            raise InvalidArgumentError(
                f"subset_index is out of range: found {subset_index!r} for {count} fractions"
            )
        if min(fraction_list) < 0 or sum(fraction_list) > 1 + 1e-6:
            raise InvalidArgumentError(
                "fraction_list must contain non-negative fractions with a sum of at most 1, such "
                f"as [0.8, 0.2]; found {fraction_list!r}"
            )
        first = subset_index % count
        self._predicate_field = predicate_field
        self._bucket_low = sum(fraction_list[:first]) * (sys.maxsize - 1)
        self._bucket_high = sum(fraction_list[: first + 1]) * (sys.maxsize - 1)

    def do_include(self, values: Mapping[str, Any]) -> bool:
        """Return whether the field's value belongs to the subset.

        Raises
        ------
        InvalidArgumentError
            If `values` does not contain the field.
        """
        if self._predicate_field not in values:
            raise InvalidArgumentError(
                f"Tested values does not have split key: {self._predicate_field}. They have "
                f"{list(values)}"
            )
        text = str(values[self._predicate_field]).encode()
        digest = hashlib.md5(text, usedforsecurity=False).digest()
        bucket = int.from_bytes(digest, "big") % sys.maxsize
        return self._bucket_low <= bucket < self._bucket_high


def _check_derived(predicate: object) -> None:
    if not isinstance(predicate, PredicateBase):
        raise InvalidArgumentError(
            f"Predicate is nor derived from PredicateBase: {predicate!r}. Wrap a function in "
            "in_lambda"
        )


def as_searched(values: Iterable[Any]) -> set[Any] | list[Any]:
    """Return the values as a set if they are hashable, otherwise as a list."""
    found = [_plain(value) for value in values]
    try:
        return set(found)
    except TypeError:
        return found


def is_among(value: Any, values: set[Any] | list[Any]) -> bool:
    """Whether a value equals one of `values`."""
    if _plain(value) in values:
        return True
    # NumPy dates and times are equal to Python's, but have different hashes.
    return isinstance(value, np.datetime64) and value.item() in values


def _plain(value: Any) -> Any:
    """Convert a NumPy number to a Python number, which can be compared with decimals."""
    return value.item() if isinstance(value, (np.number, np.bool_)) else value
