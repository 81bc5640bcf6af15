from typing import Any

import numpy as np
import pytest

from mdstorm_backend.datasets.sample_access import pick
from mdstorm_backend.streaming.base.array import Array
from mdstorm_backend.streaming.base.spanner import Spanner


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


def test_samples_are_found_in_their_shards() -> None:
    spanner = Spanner(np.array([3, 0, 1, 2]), 2)
    found = [spanner[number] for number in range(6)]
    assert found == [(0, 0), (0, 1), (0, 2), (2, 0), (3, 0), (3, 1)]
    assert (spanner.num_samples, spanner.shard_bounds.tolist()) == (6, [0, 3, 3, 4, 6])


@pytest.mark.parametrize("number", [-1, 6])
def test_what_is_no_sample_is_an_index_error(number: int) -> None:
    with pytest.raises(IndexError, match=f"Invalid sample index {number}: there are 6 samples"):
        Spanner(np.array([3, 3]))[number]
