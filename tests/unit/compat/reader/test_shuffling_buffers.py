"""Petastorm's shuffling buffers, at the limits of what they take and return."""

import pytest

from mdstorm.errors import ShufflingBufferError
from mdstorm.reader_impl.shuffling_buffer import RandomShufflingBuffer


def test_random_buffer_returns_each_item_once_and_takes_none_once_finished() -> None:
    buffer = RandomShufflingBuffer(4, 3, extra_capacity=2)
    buffer.add_many([0, 1, 2])
    assert (buffer.can_add(), buffer.can_retrieve()) == (True, True)
    buffer.add_many([3, 4, 5])  # as many as the extra capacity allows
    found = [buffer.retrieve() for _ in range(4)]
    assert not buffer.can_retrieve()
    with pytest.raises(ShufflingBufferError, match="from 2 items"):
        buffer.retrieve()
    buffer.finish()
    with pytest.raises(ShufflingBufferError, match=r"after finish\(\) was called"):
        buffer.add_many([6])
    found += [buffer.retrieve(), buffer.retrieve()]
    assert sorted(found) == [0, 1, 2, 3, 4, 5]
    assert not buffer.can_retrieve()


def test_full_random_buffer_and_more_items_than_fit_raise_error() -> None:
    buffer = RandomShufflingBuffer(2, 1, extra_capacity=1)
    with pytest.raises(ShufflingBufferError, match="new size 4, maximum allowed: 3"):
        buffer.add_many(range(4))
    buffer.add_many(range(2))
    assert not buffer.can_add()
    with pytest.raises(ShufflingBufferError, match="2 items reach the capacity"):
        buffer.add_many([2])
