import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.small_datasets import array_of, write_dataset
from tests.unit.mds_backend.read.readers import batches, numbered

from mdstorm_backend import open_dataset
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.datasets.open_streams import JoinedDataset
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.values.batch import as_arrow


def joined(directory: Path, *parts: tuple[dict[str, Any], dict[str, Any]]) -> JoinedDataset:
    return JoinedDataset(
        [
            write_dataset(directory / str(number), values, fields, shard_size=1_500)
            for number, (values, fields) in enumerate(parts)
        ]
    )


def numbers(start: int, stop: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"n": range(start, stop)}, {"n": "long"}


def read(dataset: JoinedDataset, ids: list[int], columns: Any = None) -> dict[str, list[Any]]:
    (batch,) = batches(numbered(dataset, ids, len(ids), columns=columns))
    return {name: as_arrow(values).to_pylist() for name, values in batch.items()}


def test_joined_datasets_number_samples_and_shards_consecutively(tmp_path: Path) -> None:
    dataset = joined(tmp_path, numbers(0, 70), numbers(70, 75), numbers(75, 200))
    assert len(dataset) == 200
    ids = (0, 69, 70, 74, 75, 199, -1, -200)
    assert [dataset.sample(i)["n"] for i in ids] == [*ids[:6], 199, 0]
    assert sum(dataset.shard_sizes) == 200 == dataset.bounds[-1]
    for i in (0, 69, 70, 75, 199):
        shard, row = dataset.locate(i)
        assert dataset.bounds[shard] + row == i
        assert dataset.shard(shard).sample(row) == {"n": i}
        assert dataset.find_open(shard) is dataset.shard(shard)
    with pytest.raises(IndexError, match="sample 200 of 200"):
        dataset.sample(200)
    assert read(dataset, [3, 199, 71, 3]) == {"n": [3, 199, 71, 3]}


def test_joined_datasets_without_common_columns_return_single_samples(tmp_path: Path) -> None:
    dataset = joined(tmp_path, ({"a": [1]}, {"a": "long"}), ({"b": [2]}, {"b": "long"}))
    with pytest.raises(InvalidArgumentError, match=r"batch need the same columns\. Read single"):
        read(dataset, [0])
    assert dataset.sample(1) == {"b": 2}


def test_joined_schema_sums_null_counts_and_omits_unequal_lengths(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"n": "long", "list": array_of("long")}
    dataset = joined(
        tmp_path,
        ({"n": [1, 2], "list": [[1], [2]]}, fields),
        ({"n": [None, 4], "list": [[3, 3], [4, 4]]}, fields),
    )
    assert (dataset.schema["n"].null_count, dataset.schema["list"].length) == (1, None)
    assert read(dataset, [3, 2, 0]) == {"n": [4, None, 1], "list": [[4, 4], [3, 3], [1]]}
    # Types do not depend on whether a batch has nulls or equal lengths, even after unpickling.
    for same in (dataset, pickle.loads(pickle.dumps(dataset))):  # noqa: S301 - our own bytes
        for ids in ([0, 1], [0, 2]):
            (batch,) = batches(numbered(same, ids))
            assert not any(isinstance(values, np.ndarray) for values in batch.values())


def test_bytes_ahead_of_joined_dataset_are_the_maximum_over_its_parts(
    tmp_path: Path,
) -> None:
    (here,) = joined(tmp_path, numbers(0, 70)).parts
    brought = open_dataset(here.url, cache=CacheOptions(directory=str(tmp_path / "cache")))
    assert here.bytes_ahead == 0
    assert JoinedDataset([here, brought]).bytes_ahead == brought.bytes_ahead > 0


def test_joined_fingerprint_depends_on_order_of_parts(tmp_path: Path) -> None:
    dataset = joined(tmp_path, numbers(0, 3), numbers(3, 7))
    other = JoinedDataset(dataset.parts[::-1])
    assert dataset.fingerprint == JoinedDataset(dataset.parts).fingerprint != other.fingerprint
