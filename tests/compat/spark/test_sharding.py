"""`cur_shard` and `shard_count`: every row on one rank, and as many batches on each."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.spark.converters import IN_ORDER, Read, converter_of, with_either

from mdstorm.errors import InvalidArgumentError
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
def test_a_rank_has_a_contiguous_share(ten: SparkDatasetConverter, read: Read) -> None:
    assert ranks(ten, read, 3, batch_size=3) == [[[0, 1], [2, 3]], [[4, 5], [6]], [[7, 8], [9]]]


@with_either
def test_a_world_is_the_rank_and_their_count(ten: SparkDatasetConverter, read: Read) -> None:
    expected = read(ten, cur_shard=1, shard_count=3, batch_size=3, **IN_ORDER)
    assert read(ten, world=(1, 3), batch_size=3, **IN_ORDER) == expected
    with pytest.raises(InvalidArgumentError, match="cur_shard and shard_count: pass either"):
        read(ten, world=(1, 3), cur_shard=0, shard_count=3)


@with_either
def test_an_empty_dataset_is_an_empty_stream_and_a_warning(tmp_path: Path, read: Read) -> None:
    empty = converter_of(tmp_path / "empty", {"number": []}, {"number": "long"}, tasks=1)
    for arguments in ({}, {"cur_shard": 0, "shard_count": 2}, {"num_epochs": 3}):
        with pytest.warns(UserWarning, match="No matching data is available"):
            assert read(empty, **arguments) == []


@with_either
def test_numpy_integers_are_integers(ten: SparkDatasetConverter, read: Read) -> None:
    names = ("cur_shard", "shard_count", "batch_size", "num_epochs", "workers_count", "seed")
    values = dict(zip(names, map(np.int64, (1, 2, 5, 1, 2, 5)), strict=True))
    (batch,) = read(ten, **values, shuffling_queue_capacity=np.int32(20))
    assert sorted(batch["number"]) == [5, 6, 7, 8, 9]
