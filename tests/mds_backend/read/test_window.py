from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mdstorm_backend.read.shard import MemoryShard
from mdstorm_backend.read.window import Positions, Source, Window


class Numbered(MemoryShard):
    """A shard whose samples are numbers."""

    def __init__(self, first: int, size: int) -> None:
        super().__init__({"n": np.arange(first, first + size)})


@st.composite
def windows(draw: st.DrawFn) -> tuple[Window, list[int]]:
    """A window over pieces of shards, and the numbers of its rows in order."""
    sources, numbers, first = [], [], 0
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 8))
        start = draw(st.integers(0, size - 1))
        stop = draw(st.integers(start + 1, size))
        sources.append(Source(Numbered(first, size), start, stop, first + start))
        numbers += range(first + start, first + stop)
        first += size
    permutation = draw(st.none() | st.permutations(range(len(numbers))))
    if permutation is None:
        return Window(sources, None), numbers
    return Window(sources, np.array(permutation)), [numbers[i] for i in permutation]


def as_list(positions: Positions) -> list[int]:
    if isinstance(positions, slice):
        return list(range(positions.start, positions.stop))
    return positions.tolist()  # type: ignore[no-any-return]


@settings(deadline=None)
@given(windows(), st.data(), st.integers(0, 5))
def test_selections_fill_each_place_once_with_the_right_row(
    given_: tuple[Window, list[int]], data: st.DataObject, position: int
) -> None:
    window, numbers = given_
    assert len(window) == len(numbers)
    start = data.draw(st.integers(0, len(window)))
    stop = data.draw(st.integers(start, len(window)))
    filled: dict[int, int] = {}
    for selection in window.select(start, stop, position):
        rows, places = as_list(selection.rows), as_list(selection.positions)
        for row, place in zip(rows, places, strict=True):
            assert place not in filled
            shard: Any = selection.shard
            filled[place] = int(shard.batch["n"][row])
    assert [filled[place] for place in sorted(filled)] == numbers[start:stop]
    assert sorted(filled) == list(range(position, position + stop - start))


@settings(deadline=None)
@given(windows(), st.data())
def test_numbers_are_those_of_the_dataset(
    given_: tuple[Window, list[int]], data: st.DataObject
) -> None:
    window, numbers = given_
    start = data.draw(st.integers(0, len(window)))
    stop = data.draw(st.integers(start, len(window)))
    assert window.numbers(start, stop).tolist() == numbers[start:stop]


def test_each_source_is_selected_from_once() -> None:
    sources = [Source(Numbered(10 * i, 10), 0, 10) for i in range(3)]
    permutation = np.random.default_rng(0).permutation(30)
    shards = [s.shard for s in Window(sources, permutation).select(0, 30, 0)]
    assert len(shards) == len({id(shard) for shard in shards}) == 3
