"""Loaders that go through samples: a collate_fn, or a __getitem__ of a subclass."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.mds_backend.loaders.loaders import Negative, Same, column, torch_loader
from tests.mds_backend.small_datasets import write_dataset, write_numbers
from torch.utils.data import default_collate

import mdstorm_backend
from mdstorm_backend import Dataset, ExactOrder
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format import Schema
from mdstorm_backend.format.index import ShardInfo

ROWS, SHARDS = 103, 10


def negative(dataset: Dataset, **options: Any) -> Any:
    loader = {k: options.pop(k) for k in ("batch_size", "drop_last", "num_workers") if k in options}
    order = ExactOrder(**options.pop("shuffle", {}))
    return mdstorm_backend.StreamingDataLoader(
        Negative(local=dataset.url, order=order, **options), **loader
    )


def collated(dataset: Dataset, **options: Any) -> Any:
    return torch_loader(dataset, collate_fn=default_collate, **options)


MAKERS = [(collated, 1), (negative, -1)]


@pytest.mark.parametrize(("make", "sign"), MAKERS)
@pytest.mark.parametrize(
    ("num_workers", "drop_last"),
    [(0, False), (0, True), (2, True), pytest.param(2, False, marks=pytest.mark.long)],
)
def test_samples_come_in_the_batches_of_whole_columns(
    numbers: Dataset, make: Any, sign: int, num_workers: int, drop_last: bool
) -> None:
    counts = set()
    for rank in range(3):
        options = {
            "shuffle": {"seed": 3, "window": 30, "rank": rank, "world_size": 3},
            "batch_size": 17,
            "drop_last": drop_last,
            "num_epochs": 2,
        }
        loader = make(numbers, num_workers=num_workers, **options)
        found = column(loader)
        assert found == [
            [sign * n for n in batch] for batch in column(torch_loader(numbers, **options))
        ]
        assert len(found) == len(loader)
        counts.add(len(found))
    assert len(counts) == 1


@pytest.mark.parametrize(("make", "sign"), MAKERS)
@pytest.mark.parametrize("num_workers", [0, 2])
def test_samples_are_resumed(numbers: Dataset, make: Any, sign: int, num_workers: int) -> None:
    options = {"shuffle": {"seed": 3, "window": 30}, "batch_size": 9, "num_workers": num_workers}
    whole = column(make(numbers, **options))
    first, second = make(numbers, **options), make(numbers, **options)
    iterator = iter(first)
    assert column(islice(iterator, 4)) == whole[:4]
    state = first.state_dict()
    assert state["sample_in_epoch"] == 36
    assert first.num_samples_yielded == 36
    iterator.close()
    second.load_state_dict(state)
    assert column(second) == whole[4:]


def test_a_state_passes_between_samples_and_whole_columns(numbers: Dataset) -> None:
    plain, samples = torch_loader(numbers), collated(numbers)
    next(iter(plain))
    samples.load_state_dict(plain.state_dict())
    assert column(samples) == column(torch_loader(numbers))[1:]


def test_an_empty_batch_has_the_columns_of_the_others(tmp_path: Path) -> None:
    fields = {"number": "long", "word": "string"}
    dataset = write_dataset(tmp_path, {"number": [1, 2, 3], "word": list("abc")}, fields)
    shuffle = {"rank": 1, "world_size": 2}
    *_, last = collated(dataset, batch_size=1, shuffle=shuffle)
    assert (last["number"].shape, last["number"].dtype, last["word"]) == ((0,), torch.int64, [])
    sizes = []
    list(
        torch_loader(
            dataset, batch_size=1, shuffle=shuffle, collate_fn=lambda s: sizes.append(len(s))
        )
    )
    assert sizes == [1, 0]


def test_a_transform_and_an_own_getitem_exclude_each_other(numbers: Dataset) -> None:
    loader = negative(numbers, transform=Same())
    with pytest.raises(
        InvalidArgumentError, match="Negative overrides __getitem__ and has a trans"
    ):
        next(iter(loader))
    with pytest.raises(
        InvalidArgumentError, match="Negative overrides __getitem__ and has a trans"
    ):
        next(iter(loader.dataset))


@pytest.mark.parametrize("make", [collated, negative])
def test_each_compressed_shard_is_opened_once(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = write_numbers(tmp_path, 200, tasks=20, compression="zstd")
    opened: list[str] = []
    parse = Dataset._parse

    def count(self: Dataset, schema: Schema, info: ShardInfo, content: Any) -> Any:
        opened.append(info.raw_data.basename)
        return parse(self, schema, info, content)

    monkeypatch.setattr(Dataset, "_parse", count)
    found = [abs(n) for b in column(make(dataset, shuffle={"seed": 1, "window": 200})) for n in b]
    assert sorted(found) == list(range(200))
    assert (len(opened), len(set(opened))) == (20, 20)
