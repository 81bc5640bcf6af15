from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.order.shares import (
    PassRows,
    Place,
    Split,
    batch_sizes,
    ceil_div,
)


@pytest.mark.parametrize(
    ("rows", "batches", "expected"),
    [(10, 4, [3, 3, 3, 1]), (9, 3, [3, 3, 3]), (9, 4, [3, 3, 2, 1]), (1, 2, [1, 0]), (0, 0, [])],
)
def test_a_rank_that_is_short_of_rows_splits_what_it_has_left(
    rows: int, batches: int, expected: list[int]
) -> None:
    assert list(batch_sizes(rows, batches, 3)) == expected


@given(st.integers(0, 300), st.integers(1, 8), st.integers(1, 40))
def test_only_the_end_of_the_last_global_batch_needs_padding(
    num_rows: int, world_size: int, batch_size: int
) -> None:
    split = Split(world_size, padded_to=batch_size)
    shares = [split.share(num_rows, rank) for rank in range(world_size)]
    assert [row for rows in shares for row in rows] == list(range(num_rows))
    batches = ceil_div(num_rows, world_size * batch_size)
    sizes = [list(split.batch_sizes(len(rows), batches, batch_size)) for rows in shares]
    for number, of_ranks in enumerate(zip(*sizes, strict=True), 1):
        # Full batches come first, then one with the rest, then those that are padding alone.
        assert sorted(of_ranks, reverse=True) == list(of_ranks)
        assert number == batches or set(of_ranks) == {batch_size}
        assert sum(0 < size < batch_size for size in of_ranks) <= 1
    assert split.remainder(num_rows) == num_rows % (world_size * batch_size)
    for rows, of_rank in zip(shares, sizes, strict=True):
        assert [0, *accumulate(of_rank)] == [
            split.delivered(len(rows), batches, batch_size, first) for first in range(batches + 1)
        ]


def test_the_rows_of_a_pass_are_those_of_its_epochs() -> None:
    rows = PassRows(2, 5, (3, 1), 7)
    assert [rows.of_epoch(epoch) for epoch in (2, 3, 4)] == [3, 1, 7]
    assert rows.total == 11
    assert rows.before(Place(4, 2)) == 6
    assert rows._replace(stop_epoch=None).total is None


@pytest.mark.parametrize("world_size", [1, 3])
def test_padding_makes_the_ranks_last_batches_alike(world_size: int) -> None:
    split = Split(world_size, padded_to=7)

    for num_rows in range(1, 70):
        rows = [split.last_rows(num_rows, rank) for rank in range(world_size)]
        size = split.last_size(num_rows)
        assert sum(rows) == (split.remainder(num_rows) or 7 * world_size)
        assert rows == sorted(rows, reverse=True)
        assert size == 7 if world_size > 1 else [size] == rows
