from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdstorm_backend.datasets.sample_access import pick
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.streaming.base.array import Array


def get(number: int) -> str:
    if not 0 <= number < 5:
        raise IndexError(number)
    return "abcde"[number]


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0, "a"),
        (-1, "e"),
        (np.int32(2), "c"),
        (slice(1, 3), ["b", "c"]),
        (slice(None, None, -2), ["e", "c", "a"]),
        (slice(-2, 99), ["d", "e"]),
        ([3, [-5, 1]], ["d", ["a", "b"]]),
        (np.array([[0, 1], [2, -1]]), [["a", "b"], ["c", "e"]]),
        ([], []),
    ],
)
def test_samples_are_picked(at: Any, expected: Any) -> None:
    assert pick(at, 5, get) == expected


@pytest.mark.parametrize("at", [5, -6, [0, 5]])
def test_there_are_no_other_samples(at: Any) -> None:
    with pytest.raises(IndexError):
        pick(at, 5, get)


@pytest.mark.parametrize("at", ["0", 1.0, None, (1, 2)])
def test_samples_have_numbers(at: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="samples cannot be indexed by"):
        pick(at, 5, get)


def test_a_class_of_its_own_has_a_size_and_items() -> None:
    class Squares(Array):
        @property
        def size(self) -> int:
            return 5

        def get_item(self, idx: int) -> int:
            return idx * idx

    assert (Squares()[-1], Squares()[1:3], Squares()[[[0], [4, -2]]]) == (
        16,
        [1, 4],
        [[0], [16, 9]],
    )
