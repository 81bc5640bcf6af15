from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mdstorm_backend.read.row_stream import Position, RowStream
from mdstorm_backend.read.shard import MemoryShard
from mdstorm_backend.read.window import Range, Source, Window

#: Sizes of the windows of each epoch.
Epochs = list[list[int]]


def windows(
    epochs: Epochs, skip: int = 0, first: int = 0
) -> Iterator[tuple[int, int, int, Window]]:
    for epoch, sizes in enumerate(epochs[first:], first):
        for size in sizes:
            if size <= skip:
                skip -= size
                continue
            window = Window([Source(MemoryShard({"n": np.arange(size)}), 0, size)], None)
            yield epoch, skip, size, window
            skip = 0


def lengths(ranges: list[Range]) -> list[int]:
    return [range_.stop - range_.start for range_ in ranges]


def test_rows_are_taken_across_windows_and_epochs() -> None:
    stream = RowStream(windows([[3, 2], [3]]), Position())
    ranges: list[Range] = []
    assert stream.take(4, ranges) == 4
    assert lengths(ranges) == [3, 1]
    assert stream.position == Position(0, 4, 1)
    assert stream.take(3, ranges) == 3
    assert stream.position == Position(1, 2, 2)


def test_the_end_of_an_epoch_belongs_to_it() -> None:
    stream = RowStream(windows([[3], [3]]), Position())
    assert stream.take(3, []) == 3
    assert stream.position == Position(0, 3, 1)


def test_consecutive_rows_of_a_window_are_one_range() -> None:
    stream = RowStream(windows([[10]]), Position())
    ranges: list[Range] = []
    for _ in range(3):
        stream.take(2, ranges)
    assert lengths(ranges) == [6]


def test_fewer_rows_are_taken_only_at_the_end() -> None:
    stream = RowStream(windows([[3]]), Position())
    assert [stream.take(2, []) for _ in range(3)] == [2, 1, 0]


def test_a_batch_without_rows_counts_as_a_batch() -> None:
    stream = RowStream(windows([[3]]), Position())
    ranges: list[Range] = []
    assert stream.take(0, ranges) == 0
    assert ranges == []
    assert stream.position == Position(0, 0, 1)


def test_a_window_may_be_used_in_part() -> None:
    window = Window([Source(MemoryShard({"n": np.arange(9)}), 0, 9)], None)
    stream = RowStream(iter([(0, 2, 5, window), (0, 7, 8, window)]), Position())
    ranges: list[Range] = []
    assert stream.take(9, ranges) == 4
    assert [(range_.start, range_.stop) for range_ in ranges] == [(2, 5), (7, 8)]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=3),
    st.integers(1, 8),
    st.integers(0, 6),
)
def test_a_stream_from_a_position_continues_there(epochs: Epochs, size: int, batches: int) -> None:
    whole = RowStream(windows(epochs), Position())
    for _ in range(batches):
        whole.take(size, [])
    start = whole.position
    rest = RowStream(windows(epochs, start.row, start.epoch), start)
    while True:
        taken = [stream.take(size, []) for stream in (whole, rest)]
        assert taken[0] == taken[1]
        assert whole.position == rest.position
        if not taken[0]:
            break
