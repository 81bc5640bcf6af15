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
def test_nothing_is_shuffled_where_nothing_asks_for_it(
    many: SparkDatasetConverter, read: Read
) -> None:
    assert numbers(many, read, shuffle_row_groups=False) == list(range(ROWS))


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


@with_either
@pytest.mark.parametrize("capacity", [None, 0, -1])
def test_no_queue_shuffles_nothing(
    many: SparkDatasetConverter, read: Read, capacity: int | None
) -> None:
    assert numbers(many, read, shuffling_queue_capacity=capacity) == list(range(ROWS))


@with_either
@pytest.mark.parametrize(
    "arguments",
    [{"shuffle_row_groups": True}, {"shuffle_rows": True}, {"shuffling_queue_capacity": 50}],
    ids=lambda arguments: next(iter(arguments)),
)
def test_a_seed_fixes_the_order_and_each_epoch_has_its_own(
    many: SparkDatasetConverter, read: Read, arguments: dict[str, Any]
) -> None:
    first = numbers(many, read, seed=5, num_epochs=2, **arguments)
    assert first == numbers(many, read, seed=5, num_epochs=2, **arguments)
    assert first != numbers(many, read, seed=6, num_epochs=2, **arguments)
    assert first[:ROWS] != first[ROWS:]
    assert sorted(first[:ROWS]) == sorted(first[ROWS:]) == list(range(ROWS))


@with_either
@pytest.mark.parametrize("seed", [None, 0])
def test_without_a_seed_each_loader_has_an_order_of_its_own(
    many: SparkDatasetConverter, read: Read, seed: int | None
) -> None:
    orders = [tuple(numbers(many, read, shuffle_rows=True, seed=seed)) for _ in range(2)]
    assert len(set(orders)) == 2


@pytest.mark.parametrize("make", ["make_torch_dataloader", "make_tf_dataset"])
def test_each_pass_over_a_loader_has_an_order_of_its_own(
    many: SparkDatasetConverter, make: str
) -> None:
    loader = getattr(many, make)(batch_size=ROWS, num_epochs=1, shuffle_rows=True, seed=5)
    passes = []
    for _ in range(2):
        ((rows,),) = [
            [batch["number"] if isinstance(batch, dict) else batch.number.numpy()]
            for batch in loader
        ]
        passes.append(rows.tolist())
    assert passes[0] != passes[1]
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(ROWS))


def test_shard_seed_stands_in_for_a_seed_with_a_warning(many: SparkDatasetConverter) -> None:
    with pytest.warns(UserWarning, match="shard_seed was deprecated"):
        rows = numbers(many, with_torch, shuffle_rows=True, shard_seed=5)
    assert rows == numbers(many, with_torch, shuffle_rows=True, seed=5)


@with_either
@pytest.mark.parametrize("workers_count", [1, 2, 10])
@pytest.mark.parametrize("pool", ["thread", "process", "dummy"])
def test_workers_do_not_change_the_order(
    many: SparkDatasetConverter, read: Read, workers_count: int, pool: str
) -> None:
    rows = numbers(
        many, read, workers_count=workers_count, reader_pool_type=pool, shuffle_rows=True, seed=5
    )
    assert rows == numbers(many, read, shuffle_rows=True, seed=5)
