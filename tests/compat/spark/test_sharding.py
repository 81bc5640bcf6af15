"""`cur_shard` and `shard_count`: every row on one rank, and as many batches on each."""

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.spark.converters import IN_ORDER, Read, converter_of, with_either

from mdstorm.errors import InvalidArgumentError, NoDataAvailableError
from mdstorm.spark import SparkDatasetConverter


def ranks(
    converter: SparkDatasetConverter, read: Read, count: int, **arguments: Any
) -> list[list[list[int]]]:
    """Numbers by rank, batch and row."""
    arguments = {**IN_ORDER, "shard_count": count, **arguments}
    return [
        [batch["number"] for batch in read(converter, cur_shard=rank, **arguments)]
        for rank in range(count)
    ]


@with_either
@pytest.mark.parametrize(
    "count", [1, 2, 3, 4, *(pytest.param(count, marks=pytest.mark.long) for count in (7, 10))]
)
@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_every_row_comes_once_and_ranks_have_as_many_batches(
    ten: SparkDatasetConverter, read: Read, count: int, batch_size: int
) -> None:
    found = ranks(ten, read, count, batch_size=batch_size)
    assert list(chain(*chain(*found))) == list(range(10))
    assert len({len(batches) for batches in found}) == 1


@with_either
def test_a_rank_has_a_contiguous_share(ten: SparkDatasetConverter, read: Read) -> None:
    assert ranks(ten, read, 3, batch_size=3) == [
        [[0, 1], [2]],
        [[3, 4], [5]],
        [[6, 7, 8], [9]],
    ]


@with_either
def test_a_seed_changes_the_order_and_not_the_share(ten: SparkDatasetConverter, read: Read) -> None:
    for seed in (1, 2):
        found = ranks(ten, read, 2, seed=seed, shuffle_rows=True, shuffle_row_groups=True)
        assert [sorted(chain(*batches)) for batches in found] == [[*range(5)], [*range(5, 10)]]


@with_either
def test_batches_of_a_rank_span_epochs(ten: SparkDatasetConverter, read: Read) -> None:
    first, second = ranks(ten, read, 2, batch_size=4, num_epochs=2)
    assert first == [[0, 1, 2, 3], [4, 0, 1, 2], [3, 4]]
    assert second == [[5, 6, 7, 8], [9, 5, 6, 7], [8, 9]]


@with_either
def test_endless_epochs_stay_within_the_share(ten: SparkDatasetConverter, read: Read) -> None:
    first, second = ranks(ten, read, 2, batch_size=5, num_epochs=None, take=4)
    assert first == [[0, 1, 2, 3, 4]] * 4
    assert second == [[5, 6, 7, 8, 9]] * 4


@with_either
def test_fewer_rows_than_ranks_is_an_error(ten: SparkDatasetConverter, read: Read) -> None:
    with pytest.raises(NoDataAvailableError, match="Number of row-groups in the dataset must be"):
        read(ten, cur_shard=0, shard_count=11, num_epochs=1)


@with_either
def test_an_empty_dataset_is_an_empty_stream_and_a_warning(tmp_path: Path, read: Read) -> None:
    empty = converter_of(tmp_path / "empty", {"number": []}, {"number": "long"}, tasks=1)
    for arguments in ({}, {"cur_shard": 0, "shard_count": 2}, {"num_epochs": 3}):
        with pytest.warns(UserWarning, match="No matching data is available"):
            assert read(empty, **arguments) == []


@pytest.mark.parametrize("make", ["make_torch_dataloader", "make_tf_dataset"])
@pytest.mark.parametrize(
    ("cur_shard", "shard_count"),
    [(0, None), (None, 2), (0, 0), (2, 2), (-1, 2), (0.5, 2), (0, 2.5), ("0", "2"), (0, -1)],
    ids=str,
)
def test_wrong_shards_are_refused_at_once(
    ten: SparkDatasetConverter, make: str, cur_shard: Any, shard_count: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match="must be ints and both specified") as caught:
        getattr(ten, make)(cur_shard=cur_shard, shard_count=shard_count)
    assert f"cur_shard={cur_shard!r}" in str(caught.value)
    assert isinstance(caught.value, ValueError)


@with_either
def test_numpy_integers_are_shards_too(ten: SparkDatasetConverter, read: Read) -> None:
    batches = read(ten, cur_shard=np.int64(1), shard_count=np.int64(2), batch_size=5, **IN_ORDER)
    assert batches == [{"number": [5, 6, 7, 8, 9]}]


@with_either
def test_a_launcher_alone_shards_nothing(
    ten: SparkDatasetConverter, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert read(ten, batch_size=10, **IN_ORDER) == [{"number": list(range(10))}]
