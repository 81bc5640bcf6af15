"""Orders: what is permuted, when anew, and what a seed fixes."""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from tests.compat.spark.converters import IN_ORDER, Read, converter_of, with_either, with_torch

from mdstorm.spark import SparkDatasetConverter

ROWS, SHARDS = 96, 8


@pytest.fixture
def many(tmp_path: Path) -> SparkDatasetConverter:
    """96 numbers in 8 shards."""
    columns = {"number": range(ROWS)}
    return converter_of(tmp_path / "many", columns, {"number": "long"}, tasks=SHARDS)


def numbers(converter: SparkDatasetConverter, read: Read, **arguments: Any) -> list[int]:
    arguments = {**IN_ORDER, "batch_size": 10, **arguments}
    return list(chain(*(batch["number"] for batch in read(converter, **arguments))))


def shards(rows: list[int]) -> list[list[int]]:
    size = ROWS // SHARDS
    return [rows[i : i + size] for i in range(0, len(rows), size)]


@with_either
def test_shards_are_permuted_by_default(many: SparkDatasetConverter, read: Read) -> None:
    batches = read(many, batch_size=10, num_epochs=1, seed=5)
    rows = list(chain(*(batch["number"] for batch in batches)))
    assert rows != sorted(rows)
    assert sorted(shards(rows)) == shards(list(range(ROWS)))


@with_either
def test_shuffle_rows_permutes_within_shards(many: SparkDatasetConverter, read: Read) -> None:
    rows = numbers(many, read, shuffle_rows=True, seed=5)
    assert rows != sorted(rows)
    assert [sorted(shard) for shard in shards(rows)] == shards(list(range(ROWS)))


@with_either
@pytest.mark.parametrize(("capacity", "window"), [(1, 12), (12, 12), (13, 24), (96, 96), (999, 96)])
def test_a_queue_shuffles_windows_of_whole_shards(
    many: SparkDatasetConverter, read: Read, capacity: int, window: int
) -> None:
    rows = numbers(many, read, shuffling_queue_capacity=capacity, seed=5)
    assert rows != sorted(rows)
    windows = [rows[i : i + window] for i in range(0, ROWS, window)]
    assert [sorted(rows) for rows in windows] == [
        list(range(i, i + window)) for i in range(0, ROWS, window)
    ]


@pytest.mark.parametrize("capacity", [None, 0, -1])
def test_no_queue_shuffles_nothing(many: SparkDatasetConverter, capacity: int | None) -> None:
    assert numbers(many, with_torch, shuffling_queue_capacity=capacity) == list(range(ROWS))


@pytest.mark.parametrize(
    "arguments",
    [{"shuffle_row_groups": True}, {"shuffle_rows": True}, {"shuffling_queue_capacity": 50}],
    ids=lambda arguments: next(iter(arguments)),
)
def test_a_seed_fixes_the_order_and_each_epoch_has_its_own(
    many: SparkDatasetConverter, arguments: dict[str, Any]
) -> None:
    first, again, other = (
        numbers(many, with_torch, seed=seed, num_epochs=2, **arguments) for seed in (5, 5, 6)
    )
    assert first == again != other
    assert first[:ROWS] != first[ROWS:]
    assert sorted(first[:ROWS]) == sorted(first[ROWS:]) == list(range(ROWS))
