"""`ReadAhead` finds the offset of the latest batch whose items have all been used."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders import ReadAhead

#: The number of items in each batch of each block.
BLOCKS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=5)


def recorded(blocks: list[list[int]], segments: list[Any]) -> tuple[ReadAhead, list[Any]]:
    """Return a queue with these blocks, and the segment, offset and end of each batch."""
    queue, ends, total, offset = ReadAhead(noun="items"), [(segments[0], 0, 0)], 0, 0
    for number, (sizes, segment) in enumerate(zip(blocks, segments, strict=True)):
        if number and segment is not segments[number - 1]:
            offset = 0
            ends.append((segment, 0, total))
        offsets = [offset + 10 * (batch + 1) for batch in range(len(sizes))]
        queue.record(segment, offsets, sizes)
        for size, offset in zip(sizes, offsets, strict=True):
            total += size
            ends.append((segment, offset, total))
    return queue, ends


@given(BLOCKS, st.data())
def test_reached_returns_the_end_of_the_latest_used_batch_and_the_items_used_after_it(
    blocks: list[list[int]], data: st.DataObject
) -> None:
    first, second = object(), object()
    change = data.draw(st.integers(1, len(blocks)))
    segments = [first] * change + [second] * (len(blocks) - change)
    queue, ends = recorded(blocks, segments)
    for used in range(queue.num_read + 1):
        segment, offset, end = next(one for one in reversed(ends) if one[2] <= used)
        assert queue.reached(used) == (segment, offset, used - end)
        queue.drop_used(used)
        assert queue.reached(used) == (segment, offset, used - end)
    with pytest.raises(StateMismatchError, match="items"):
        queue.reached(queue.num_read + 1)
