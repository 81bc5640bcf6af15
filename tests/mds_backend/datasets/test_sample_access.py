import numpy as np
import pytest

from mdstorm_backend.streaming.base.array import Array
from mdstorm_backend.streaming.base.spanner import Spanner


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


@pytest.mark.parametrize("number", [-1, 6])
def test_what_is_no_sample_is_an_index_error(number: int) -> None:
    with pytest.raises(IndexError, match=f"Invalid sample index {number}: there are 6 samples"):
        Spanner(np.array([3, 3]))[number]
