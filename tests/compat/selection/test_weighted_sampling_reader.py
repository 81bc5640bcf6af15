"""Rows drawn from several readers."""

from typing import Any

import numpy as np
import pytest

from mdstorm.errors import InvalidArgumentError
from mdstorm.ngram import NGram
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm.weighted_sampling_reader import WeightedSamplingReader


def schema(*names: str) -> Unischema:
    return Unischema("Sch", [UnischemaField(name, np.int64, (), None, False) for name in names])


class Rows:
    """A reader of `count` rows, all of them `value`."""

    def __init__(self, value: Any, count: int = 5, **attributes: Any) -> None:
        self.batched_output, self.ngram, self.schema = False, None, schema("a")
        self.last_row_consumed, self.calls = False, []
        self.value, self.left = value, count
        vars(self).update(attributes)

    def __len__(self) -> int:
        return 7

    def __next__(self) -> Any:
        if not self.left:
            self.last_row_consumed = True
            raise StopIteration
        self.left -= 1
        return self.value

    def stop(self) -> None:
        self.calls.append("stop")

    def join(self) -> None:
        self.calls.append("join")


def draw(weights: Any, count: int = 5, **options: Any) -> list[Any]:
    return list(WeightedSamplingReader([Rows(1, count), Rows(2, count)], weights, **options))


def test_the_draw_is_that_of_petastorm() -> None:
    np.random.seed(1)  # noqa: NPY002  # Petastorm's generator
    assert draw([1, 3]) == [2, 2, 1, 2, 1, 1, 1, 2, 2]
    assert draw([1, 3], seed=1) == [2, 2, 1, 2, 1, 1, 1, 2, 2]


def test_it_ends_with_the_first_reader_that_ends() -> None:
    first, second = Rows(1, 1), Rows(2, 100)
    reader = WeightedSamplingReader([first, second], [1, 1], seed=0)
    assert not reader.last_row_consumed
    found = list(reader)
    assert found.count(1) == 1
    assert reader.last_row_consumed
    for _ in range(10):
        with pytest.raises(StopIteration):
            reader.next()
    first.left, first.last_row_consumed = 1, False  # as `reset` does it
    assert list(reader).count(1) == 1


def test_it_has_the_attributes_of_its_readers() -> None:
    readers = [Rows(1, batched_output=True), Rows(2, batched_output=True)]
    reader = WeightedSamplingReader(tuple(readers), np.array([1, 1]))
    assert (reader.batched_output, reader.is_batched_reader, reader.ngram) == (True, True, None)
    assert reader.schema is readers[0].schema
    assert len(reader) == 14
    with reader as entered:
        assert entered is reader
    assert [each.calls for each in readers] == [["stop", "join"]] * 2


@pytest.mark.parametrize(
    ("readers", "weights", "message"),
    [
        ([], [], r"Two or more readers must be specified\. Got 0\."),
        ([Rows(1), Rows(2, ngram=NGram({0: ["a"]}, 1, "a"))], [1, 1], "same ngram spec"),
        ([Rows(1), Rows(2, batched_output=True)], [1, 1], 'same value of "batched_output"'),
        ([Rows(1), Rows(2)], [0, 0], "whose sum is positive"),
        ([Rows(1), Rows(2)], [-1, 2], "at least 0"),
        ([Rows(1), Rows(2)], [float("nan"), 2], "at least 0"),
        ([Rows(1), Rows(2)], [float("inf"), 2], "whose sum is positive"),
    ],
)
def test_readers_that_do_not_fit_are_refused(readers: Any, weights: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        WeightedSamplingReader(readers, weights)
