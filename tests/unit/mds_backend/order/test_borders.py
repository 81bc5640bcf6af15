"""Limits of what orders accept and cut: the last value, and the first beyond it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mdstorm_backend.errors import MDStormError
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.order.chunk import in_ranges
from mdstorm_backend.order.state_values import LATEST_RULE, lanes_of, number, rule_of
from mdstorm_backend.order.streams import StreamShape
from mdstorm_backend.order.weighting import check_epoch_size
from mdstorm_backend.order.windows import Windows


def lanes(count: int) -> list[list[int]]:
    return [[consumed, 1, 0] for consumed in range(count)]


#: What is called with a value → the values at the limits, and those beyond them.
LIMITS: dict[str, tuple[Callable[[Any], Any], list[Any], list[Any]]] = {
    "a number in a state": (
        lambda value: number({"key": value}, "key", 1),
        [1, 2**63 - 1],
        [0, -1, 2**63],
    ),
    "rule of a state": (lambda rule: rule_of({"rule": rule}), [0, LATEST_RULE], [LATEST_RULE + 1]),
    "rule of an order": (
        lambda rule: ExactOrder(rule=rule),
        [0, LATEST_RULE],
        [-1, LATEST_RULE + 1],
    ),
    "lanes of a state": (lambda count: lanes_of({"lanes": lanes(count)}), [0, 1, 256], [257]),
    "epoch size": (lambda size: check_epoch_size("size", size), [1, 2**62 - 1], [0, -1, 2**62]),
    "choose": (lambda value: StreamShape((1,), choose=value), [0, 1], [-1]),
    "repeat": (
        lambda value: StreamShape((1,), repeat=value),
        [0, 5e-324, 1e308],
        [-5e-324, np.inf],
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_last_value_is_accepted_and_next_one_raises_error(name: str) -> None:
    call, accepted, refused = LIMITS[name]
    for value in accepted:
        call(value)
    for value in refused:
        with pytest.raises(MDStormError):
            call(value)


@pytest.mark.parametrize(
    ("windows", "ends"),
    [
        (Windows(), [1, 2, 3, 4, 5, 6]),
        (Windows(least=1), [1, 2, 3, 4, 5, 6]),
        (Windows(least=9), [2, 4, 6]),
        (Windows(least=10), [2, 4, 6]),
        (Windows(least=11), [3, 6]),
        (Windows(least=30), [6]),
        (Windows(queue=5), [3, 6]),
    ],
    ids=str,
)
def test_window_ends_with_the_shard_that_has_its_last_row(
    windows: Windows, ends: list[int]
) -> None:
    assert list(windows.ends(np.full(6, 5))) == ends


def test_numbers_at_both_ends_of_ranges_are_in_them_or_not() -> None:
    numbers = np.array([3, 4, 5, 8, 9, 10])
    places, owners = in_ranges(numbers, np.array([4, 8, 11]), np.array([1, 2, 3]))
    assert (places.tolist(), owners.tolist()) == ([1, 3, 4], [0, 1, 1])
