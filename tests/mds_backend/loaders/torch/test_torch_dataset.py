from __future__ import annotations

import pickle
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.loaders.loaders import column
from tests.mds_backend.small_datasets import array_of, write_dataset, write_numbers
from torch.utils.data import DataLoader

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Sixty numbers in six shards."""
    return write_numbers(tmp_path_factory.mktemp("numbers"), 60, tasks=6)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)


def rows(dataset: StreamingDataset) -> list[int]:
    return [sample["number"] for sample in dataset]


def test_shuffling_is_repeatable_and_new_in_each_epoch(numbers: Dataset) -> None:
    first, second = (StreamingDataset(local=numbers.url, shuffle=True) for _ in range(2))
    epochs = [rows(first) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert all(sorted(epoch) == list(range(60)) for epoch in epochs)
    assert [rows(second) for _ in range(3)] == epochs
    second.set_epoch(1)
    assert rows(second) == epochs[1]
    other = StreamingDataset(local=numbers.url, shuffle=True, shuffle_seed=1)
    assert rows(other) != epochs[0]


@pytest.mark.parametrize("arguments", [{}, {"local": "a", "streams": [Stream(local="a")]}])
def test_streams_or_one_place_are_wanted(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match="You must provide either `streams` or"):
        StreamingDataset(**arguments)


@pytest.mark.parametrize("num_workers", [0, 1, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_plain_data_loader_reads_each_sample_once(
    numbers: Dataset, num_workers: int, shuffle: bool
) -> None:
    dataset = StreamingDataset(local=numbers.url, batch_size=7, shuffle=shuffle)
    batches = column(DataLoader(dataset, batch_size=7, num_workers=num_workers))
    found = [n for batch in batches for n in batch]
    assert sorted(found) == list(range(60))
    assert (found == list(range(60))) is not shuffle


def test_a_dataset_can_be_pickled_before_and_after_reading(numbers: Dataset) -> None:
    dataset = StreamingDataset(local=numbers.url, shuffle=True)
    copies = [pickle.loads(pickle.dumps(dataset))]  # noqa: S301 - our own bytes
    expected = rows(StreamingDataset(local=numbers.url, shuffle=True))
    assert rows(dataset) == expected
    dataset.set_epoch(0)
    copies.append(pickle.loads(pickle.dumps(dataset)))  # noqa: S301 - our own bytes
    assert [rows(copy) for copy in copies] == [expected, expected]


def test_samples_by_number_are_those_of_iterating(tmp_path: Path) -> None:
    moment, day = datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone.utc), date(2024, 5, 6)
    fields: dict[str, Any] = {
        "flag": "boolean",
        "n": "long",
        "t": "timestamp",
        "d": "date",
        "x": "double",
        "s": "string",
        "a": array_of("long"),
    }
    values = {
        "flag": [True, None],
        "n": [1, None],
        "t": [moment, moment],
        "d": [day, None],
        "x": [0.5, None],
        "s": ["a", None],
        "a": [[1], [2, 3]],
    }
    url = write_dataset(tmp_path, values, fields).url
    for options in ({}, {"columns": ["d", "n"]}, {"fill_nulls": {"n": 7}, "null_masks": ["flag"]}):
        dataset = StreamingDataset(local=url, **options)
        iterated = list(dataset)
        for number, expected in enumerate(iterated):
            found = dataset[number]
            assert repr(found) == repr(expected)
            assert [type(v) for v in found.values()] == [type(v) for v in expected.values()]
        assert repr(dataset[-1]) == repr(iterated[1])
    with pytest.raises(IndexError, match="sample 2 of 2"):
        dataset[2]
