"""Functions on the rows of a shard, which may change their number."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.format.values.batch import Batch
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read import batch_reader
from mdstorm_backend.read.batch_reader import BatchReader
from mdstorm_backend.read.row_stream import Position


class OnNumbers:
    """A transform that changes the numbers of a shard, and counts its calls."""

    columns = ("number",)

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.calls: list[int] = []

    def __call__(self, batch: Batch) -> Batch:
        self.calls.append(len(batch["number"]))
        return {"number": self._function(batch["number"])}


def even(numbers: Any) -> Any:
    return numbers[numbers % 2 == 0]


def twice(numbers: Any) -> Any:
    return np.repeat(numbers, 2)


def nothing(numbers: Any) -> Any:
    return numbers[:0]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Thirty numbers in six shards."""
    return write_numbers(tmp_path_factory.mktemp("numbers"), 30, tasks=6)


def read(dataset: Dataset, transform: Any, order: ExactOrder | None = None, **options: Any) -> Any:
    reader = BatchReader(
        dataset, order or ExactOrder(), transform=transform, **{"batch_size": 4, **options}
    )
    return [batch["number"].tolist() for batch in reader]  # type: ignore[union-attr]


def rows_of(batches: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(batches))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (even, list(range(0, 30, 2))),
        (twice, [n for n in range(30) for _ in range(2)]),
        (lambda n: n[::-1], [n for s in range(6) for n in range(5 * s + 4, 5 * s - 1, -1)]),
    ],
)
def test_batches_are_cut_from_what_a_function_returns(
    dataset: Dataset, function: Any, expected: list[int], workers: int
) -> None:
    batches = read(dataset, OnNumbers(function), workers=workers)
    assert rows_of(batches) == expected
    assert all(len(batch) == 4 for batch in batches[:-1])


@pytest.mark.parametrize("function", [even, twice])
@pytest.mark.parametrize(
    "order",
    [
        ExactOrder(),
        ExactOrder(seed=1, shuffle_shards=True, rank=1, world_size=4),
        ExactOrder(seed=1, shuffle_rows=True),
        ExactOrder(seed=1, shuffle_shards=True, window=8),
    ],
)
def test_slices_of_shards_give_what_whole_shards_give(
    dataset: Dataset, order: ExactOrder, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_reader, "_SLICE_BYTES", -(-2 * dataset.nbytes // len(dataset)))
    transform = OnNumbers(function)
    sliced = read(dataset, transform, order, slices=True)
    assert max(transform.calls) == 2
    assert sliced == read(dataset, OnNumbers(function), order)


def test_the_function_sees_one_shard_at_a_time_and_only_this_ranks_share(dataset: Dataset) -> None:
    transform = OnNumbers(lambda n: n)
    assert rows_of(read(dataset, transform, ExactOrder(rank=0, world_size=4))) == list(range(7))
    assert sorted(transform.calls) == [2, 5]


def test_there_is_no_length(dataset: Dataset) -> None:
    reader = BatchReader(dataset, ExactOrder(), batch_size=4, transform=OnNumbers(even))
    with pytest.raises(TypeError, match="a transform may drop rows"):
        len(reader)


@pytest.mark.parametrize("num_epochs", [1, 3, None])
def test_a_function_that_leaves_nothing_ends_the_pass_with_a_warning(
    dataset: Dataset, num_epochs: int | None
) -> None:
    with pytest.warns(UserWarning, match="No matching data is available"):
        assert read(dataset, OnNumbers(nothing), num_epochs=num_epochs) == []


@pytest.mark.parametrize("window", [0, 12])
@pytest.mark.parametrize("function", [even, twice])
def test_reading_from_any_position_repeats_the_function_and_gives_the_rest(
    dataset: Dataset, function: Any, window: int
) -> None:
    order = ExactOrder(seed=4, shuffle_shards=True, shuffle_rows=True, window=window)
    reader = BatchReader(
        dataset, order, batch_size=4, num_epochs=2, transform=OnNumbers(function), block_rows=1
    )

    def from_position(start: Position) -> list[tuple[Position, Any]]:
        return [(b.ends[0], b.batch["number"].tolist()) for b in reader.blocks(start)]  # type: ignore[union-attr]

    whole = from_position(Position())
    for done in range(1, len(whole) + 1):
        assert from_position(whole[done - 1][0]) == whole[done:]


def test_the_function_may_write_to_what_it_gets(dataset: Dataset) -> None:
    def overwrite(numbers: Any) -> Any:
        numbers += 100
        return numbers

    for _ in range(2):
        assert rows_of(read(dataset, OnNumbers(overwrite))) == list(range(100, 130))
