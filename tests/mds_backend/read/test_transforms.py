"""Functions on the rows of a shard, which may change their number."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.mds_backend.read.readers import IN_ORDER, flat, pieces, values
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.format.values.batch import Batch
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read import pieces as pieces_module
from mdstorm_backend.read.pieces import Position


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
    found = values(pieces(dataset, transform=OnNumbers(function), workers=workers))
    assert [n for batch in found for n in batch] == expected
    assert all(len(batch) == 4 for batch in found[:-1])


@pytest.mark.parametrize("function", [even, twice])
@pytest.mark.parametrize(
    "order",
    [
        IN_ORDER,
        ExactOrder(seed=1, shuffle_shards=True, rank=1, world_size=4),
        ExactOrder(seed=1, shuffle_rows=True),
        ExactOrder(seed=1, shuffle_shards=True, window=8),
    ],
)
def test_slices_of_shards_give_what_whole_shards_give(
    dataset: Dataset, order: ExactOrder, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces_module, "_SLICE_BYTES", -(-2 * dataset.nbytes // len(dataset)))
    transform = OnNumbers(function)
    sliced = values(pieces(dataset, order, transform=transform, slices=True))
    assert max(transform.calls) == 2
    assert sliced == values(pieces(dataset, order, transform=OnNumbers(function)))


def test_the_function_sees_one_shard_at_a_time_and_only_this_ranks_share(dataset: Dataset) -> None:
    transform = OnNumbers(lambda n: n)
    order = ExactOrder(rank=0, world_size=4)
    assert flat(pieces(dataset, order, transform=transform)) == list(range(8))
    assert sorted(transform.calls) == [3, 5]


@pytest.mark.parametrize("num_epochs", [1, 3, None])
def test_a_function_that_leaves_nothing_ends_the_pass_with_a_warning(
    dataset: Dataset, num_epochs: int | None
) -> None:
    with pytest.warns(UserWarning, match="No matching data is available"):
        assert not list(pieces(dataset, transform=OnNumbers(nothing), num_epochs=num_epochs))


@pytest.mark.parametrize("window", [0, 12])
@pytest.mark.parametrize("function", [even, twice])
def test_a_position_gives_the_rest_and_a_part_its_batches_in_turn(
    dataset: Dataset, function: Any, window: int
) -> None:
    order = ExactOrder(seed=4, shuffle_shards=True, shuffle_rows=True, window=window)
    options = {"num_epochs": 2, "transform": OnNumbers(function), "block_rows": 1}

    def read(**where: Any) -> list[tuple[Position, Any]]:
        blocks = pieces(dataset, order, **options, **where)
        return [
            (mark, batch) for b in blocks for mark, batch in zip(b.marks, values([b]), strict=True)
        ]

    whole = read()
    for done, (position, _) in enumerate(whole, 1):
        assert read(start=position) == whole[done:]
    for part in range(3):
        assert read(part=(part, 3)) == whole[part::3]


def test_the_function_may_write_to_what_it_gets(dataset: Dataset) -> None:
    def overwrite(numbers: Any) -> Any:
        numbers += 100
        return numbers

    for _ in range(2):
        assert flat(pieces(dataset, transform=OnNumbers(overwrite))) == list(range(100, 130))
