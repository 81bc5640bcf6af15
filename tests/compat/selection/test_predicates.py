"""Predicates asked directly, as user code and its tests do."""

import datetime as dt
from typing import Any

import numpy as np
import pytest

from mdstorm.errors import InvalidArgumentError
from mdstorm.predicates import in_intersection, in_pseudorandom_split, in_set


def test_dates_of_numpy_are_in_a_set_of_dates() -> None:
    day = dt.date(2020, 1, 2)
    assert in_set([day], "a").do_include({"a": np.datetime64("2020-01-02")})
    assert not in_set([day], "a").do_include({"a": np.datetime64("2020-01-03")})


def test_an_array_intersects_with_values() -> None:
    predicate = in_intersection([1, 2], "a")
    assert predicate.do_include({"a": np.array([[3], [2]])})
    assert predicate.do_include({"a": [1]})
    assert not predicate.do_include({"a": np.array([3])})
    assert not predicate.do_include({"a": np.array([], np.int64)})
    assert not predicate.do_include({"a": None})
    assert in_intersection([[1], [2]], "a").do_include({"a": [[2]]})
    with pytest.raises(ValueError, match=r"Predicate field should have iterable type: 'a'.*in_set"):
        predicate.do_include({"a": 1})


#: Of ids 0 to 19, recorded under Petastorm 0.13.1.
FIRST = [0, 1, 3, 5, 6, 10, 13]


def chosen(fractions: list[float], index: int, values: Any = range(20)) -> list[Any]:
    predicate = in_pseudorandom_split(fractions, index, "a")
    return [value for value in values if predicate.do_include({"a": value})]


def test_a_split_is_that_of_petastorm() -> None:
    assert chosen([0.3, 0.7], 0) == FIRST
    assert chosen([0.3, 0.7], 1) == [i for i in range(20) if i not in FIRST]
    assert chosen([0.3, 0.7], -2) == FIRST
    values = ["a", "ü", "", b"x", 1.5, np.float32(0.1), True, np.datetime64("2020-01-01")]
    assert chosen([0.5, 0.5], 0, values) == ["ü", "", 1.5]
    assert chosen([0.3, 0.7], 1, [None]) == [None]


def test_a_split_has_so_many_subsets() -> None:
    for index in (2, -3, 0.5, None):
        with pytest.raises(InvalidArgumentError, match="subset_index is out of range"):
            in_pseudorandom_split([0.3, 0.7], index, "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Tested values does not have split key: a"):
        in_pseudorandom_split([0.3, 0.7], 0, "a").do_include({"b": 1})
