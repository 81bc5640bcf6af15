"""Samples taken from blocks, found by number, and collated into batches."""

import copy
from datetime import date, datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kit.loaders import Negative, Repeat, Same, column, torch_loader
from tests.kit.small_datasets import array_of, write_dataset, write_numbers
from torch.utils.data import DataLoader, default_collate

from mdstorm_backend import (
    Dataset,
    ExactOrder,
    MDSWriter,
    StreamingDataLoader,
    StreamingDataset,
    merge_index,
)
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format import Schema
from mdstorm_backend.format.index import ShardInfo
from mdstorm_backend.loaders.torch.samples import SampleMaker
from mdstorm_backend.read.mds_shard import MDSShard

ROWS, SHARDS = 103, 10


negative = partial(torch_loader, kind=Negative)
collated = partial(torch_loader, collate_fn=default_collate)
MAKERS = [(collated, 1), (negative, -1)]


@pytest.mark.matrix
@pytest.mark.parametrize(("make", "sign"), MAKERS)
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_of_samples_equal_batches_of_columns(
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


@pytest.mark.filterwarnings("ignore:some ranks read:UserWarning")
@pytest.mark.parametrize("rank", [0, 1])
def test_samples_of_a_transform_that_adds_rows_are_complete(numbers: Dataset, rank: int) -> None:
    rows = {}
    for transform in (None, Repeat(2)):
        dataset = StreamingDataset(
            local=numbers.url,
            order=ExactOrder(),
            batch_size=1,
            world=(rank, 2),
            transform=transform,
        )
        rows[transform is None] = [sample["number"] for sample in dataset]
    assert rows[False] == np.repeat(rows[True], 2).tolist()


def test_empty_batch_has_the_columns_of_other_batches(tmp_path: Path) -> None:
    fields = {"number": "long", "word": "string"}
    dataset = write_dataset(tmp_path, {"number": [1, 2, 3], "word": list("abc")}, fields)
    shuffle = {"rank": 1, "world_size": 2}
    *_, last = collated(dataset, batch_size=1, shuffle=shuffle)
    assert (last["number"].shape, last["number"].dtype, last["word"]) == ((0,), torch.int64, [])
    assert list(torch_loader(dataset, batch_size=1, shuffle=shuffle, collate_fn=len)) == [1, 0]


def test_transform_with_overridden_getitem_raises_error(numbers: Dataset) -> None:
    loader = negative(numbers, transform=Same())
    for reading in (loader, loader.dataset):
        with pytest.raises(InvalidArgumentError, match="overrides __getitem__ and has a trans"):
            next(iter(reading))


class Stopping(StreamingDataset):
    """Raises a StopIteration by accident."""

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index) if index != 5 else next(iter(()))


@pytest.mark.parametrize(
    "read",
    [
        iter,
        partial(DataLoader, batch_size=4),
        partial(StreamingDataLoader, batch_size=4),
        partial(StreamingDataLoader, batch_size=4, num_workers=2),
    ],
)
def test_stop_iteration_in_getitem_raises_error_instead_of_losing_rows(
    numbers: Dataset, read: Any
) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(read(Stopping(local=numbers.url, batch_size=4)))


@pytest.mark.parametrize("make", [collated, negative])
def test_each_compressed_shard_is_opened_once(
    tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = write_numbers(tmp_path, 200, tasks=20, compression="zstd")
    opened: list[str] = []

    def count(content: Any, info: ShardInfo, schema: Schema, *, url: str) -> MDSShard:
        opened.append(info.raw_data.basename)
        return MDSShard(content, info, schema, url=url)

    monkeypatch.setattr("mdstorm_backend.datasets.dataset.MDSShard", count)
    found = [abs(n) for b in column(make(dataset, shuffle={"seed": 1, "window": 200})) for n in b]
    assert sorted(found) == list(range(200))
    assert (len(opened), len(set(opened))) == (20, 20)


COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "bool": ("boolean", [True, None, False]),
    "byte": ("byte", [None, -7, 7]),
    "long": ("long", [1 << 50, None, -3]),
    "float": ("float", [0.1, None, float("nan")]),
    "double": ("double", [None, 0.1, 2.5]),
    "text": ("string", ["x", None, ""]),
    "bytes": ("binary", [None, b"\0x", b""]),
    "date": ("date", [date(2020, 2, 3), None, date(1969, 1, 1)]),
    "time": ("timestamp", [datetime(2024, 5, 6, 7, tzinfo=timezone.utc)] * 3),
    "list": (array_of("integer"), [[1, 2], None, []]),
    "full": ("integer", [1, 2, 3]),
}
SIMPLE = ["bool", "byte", "long", "float", "double", "text", "bytes", "full"]


@pytest.fixture(scope="module")
def with_nulls(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("nulls")
    columns = {name: values for name, (_, values) in COLUMNS.items()}
    write_dataset(directory, columns, {name: type_ for name, (type_, _) in COLUMNS.items()})
    return str(directory)


def shown(sample: dict[str, Any]) -> list[tuple[str, type, str]]:
    """Return names, types and values in a form where NaN equals NaN."""
    return [(name, type(value), repr(value)) for name, value in sample.items()]


def test_dataset_can_be_copied_after_making_a_sample(with_nulls: str) -> None:
    dataset = StreamingDataset(local=with_nulls, batch_size=1, fill_nulls={"text": "?"})
    assert dataset[1]["text"] == "?"
    assert copy.deepcopy(dataset)[1]["text"] == "?"


@pytest.mark.parametrize(
    ("names", "nulls"),
    [
        *((names, {}) for names in (SIMPLE, [*SIMPLE, "date"], ["list"], list(COLUMNS))),
        (list(COLUMNS), {"fill_nulls": {"long": 7}, "null_masks": ["bool"]}),
    ],
)
def test_indexed_samples_with_nulls_equal_iterated_samples(
    with_nulls: str, names: list[str], nulls: dict[str, Any]
) -> None:
    dataset = StreamingDataset(local=with_nulls, columns=names, **nulls)
    iterated = [shown(sample) for sample in dataset]
    assert [shown(dataset[i]) for i in (0, 1, -1)] == iterated
    assert {len(sample) for sample in iterated} == {len(names) + bool(nulls)}
    with pytest.raises(IndexError, match="sample 3 of 3"):
        dataset[3]


@pytest.mark.parametrize("stated", [True, False])
def test_iterated_and_indexed_samples_have_the_same_values_and_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: bool
) -> None:
    types = ["boolean", "byte", "short", "integer", "long", "float", "double"]
    columns = {type_: [True] * 3 if type_ == "boolean" else [0, 1, 2] for type_ in reversed(types)}
    if stated:
        write_dataset(tmp_path / "data", columns, {type_: type_ for type_ in columns})
    else:
        kinds = {"b": "uint8", "a": "int16", "d": "float16", "c": "uint64"}
        with MDSWriter(out=str(tmp_path / "data"), columns=kinds) as writer:
            for n in range(3):
                writer.write({name: np.dtype(kind).type(n) for name, kind in kinds.items()})
    dataset = StreamingDataset(local=str(tmp_path / "data"))
    by_number = [shown(dataset[i]) for i in range(3)]
    monkeypatch.setattr(SampleMaker, "__call__", None)
    assert [shown(sample) for sample in dataset] == by_number


def test_uint64_samples_are_collated_by_pytorch(tmp_path: Path) -> None:
    with MDSWriter(out=str(tmp_path / "data"), columns={"n": "uint64"}) as writer:
        writer.write({"n": 1})
        writer.write({"n": 2**64 - 1})
    dataset = StreamingDataset(local=str(tmp_path / "data"))
    (batch,) = DataLoader(dataset, batch_size=2)
    assert batch["n"].dtype == torch.uint64
    assert batch["n"].tolist() == [1, 2**64 - 1]


def test_samples_keep_the_types_of_their_shards(tmp_path: Path) -> None:
    for part, kind in enumerate(["int16", "int64"]):
        with MDSWriter(out=str(tmp_path / str(part)), columns={"n": kind}) as writer:
            writer.write({"n": np.dtype(kind).type(part)})
    merge_index(str(tmp_path))
    dataset = StreamingDataset(local=str(tmp_path))
    assert [shown(s) for s in dataset] == [shown(dataset[i]) for i in range(2)]
    assert [type(sample["n"]) for sample in dataset] == [np.int16, np.int64]
