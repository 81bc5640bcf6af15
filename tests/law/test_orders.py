"""The laws of orders: what loaders, readers, states and `trace` may expect of each order.

Every order that has registered itself is tested, also one of a plugin.
"""

import json
from collections import Counter
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
from tests.kit.chains import Chain
from tests.kit.readers import write_parquet
from tests.kit.small_datasets import write_numbers

from mdstorm import make_batch_reader, make_reader
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders import trace_of_state
from mdstorm_backend.order import Order, World, order_named, order_names

pytestmark = [
    pytest.mark.parametrize("name", order_names()),
    pytest.mark.filterwarnings("ignore:Currently make_reader"),
    pytest.mark.filterwarnings("ignore:the number of batches in an epoch"),
]
ROWS, SHARDS = 211, 7


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_numbers(tmp_path_factory.mktemp("numbers") / "data", ROWS, tasks=SHARDS)


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_parquet(tmp_path_factory.mktemp("parquet"), {"number": range(ROWS)}, 30)


def repeats(name: str) -> bool:
    """Return whether an order repeats samples, so that all ranks have full batches."""
    return name == "elastic"


def order_of(name: str, rank: int = 0, ranks: int = 1) -> Order:
    return order_named(name).of_reader(5, True, True, 0).share_of(World(rank, ranks))


def torch_loader(
    url: str,
    name: str,
    rank: int,
    ranks: int,
    size: int,
    *,
    drop_last: bool = False,
    **options: Any,
) -> Any:
    dataset = StreamingDataset(local=url, order=order_of(name, rank, ranks), **options)
    return StreamingDataLoader(dataset, batch_size=size, drop_last=drop_last)


def over_reader(kind: Any, url: str, name: str, rank: int, ranks: int, size: int) -> Any:
    share = {"cur_shard": rank, "shard_count": ranks}
    return kind(make_batch_reader(url, **share, num_epochs=1, order=name, seed=5), size)


def values(batch: Any) -> list[int]:
    found = batch["number"] if isinstance(batch, dict) else batch.number
    return [int(value) for value in np.atleast_1d(np.asarray(found))]


def check(name: str, seen: Counter[int], epochs: int = 1) -> None:
    """Check that each row was read once per epoch."""
    expected = Counter(dict.fromkeys(range(ROWS), epochs))
    assert not expected - seen
    assert repeats(name) or seen == expected


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))]
)
@pytest.mark.parametrize("over", ["dataset", DataLoader, BatchedDataLoader])
def test_chain_of_worlds_returns_each_row_once_per_epoch(
    name: str, over: Any, seed: int, numbers: Dataset, parquet: str
) -> None:
    is_torch = over == "dataset"
    chain = Chain(
        seed,
        partial(torch_loader, numbers.url, name)
        if is_torch
        else partial(over_reader, over, parquet, name),
        values,
        changes_world=not repeats(name),
        copies=is_torch,
        close=lambda loader: None if is_torch else loader.reader.stop(),
    )
    chain.run()
    check(name, chain.seen, chain.epochs)


@pytest.mark.parametrize("make", [make_reader, make_batch_reader])
def test_reader_resumes_with_the_rows_that_are_left(name: str, make: Any, parquet: str) -> None:
    options = {"num_epochs": 1, "order": name, "seed": 5}
    with make(parquet, **options) as reader:
        whole = list(map(values, reader))
    check(name, Counter(row for item in whole for row in item))
    with make(parquet, **options) as reader:
        before = list(map(values, islice(reader, 3)))
        state = json.loads(json.dumps(reader.state_dict()))
    with make(parquet, **options) as reader:
        reader.load_state_dict(state)
        assert before + list(map(values, reader)) == whole


def test_tensorflow_resumes_on_other_ranks(name: str, numbers: Dataset) -> None:
    converter = SparkDatasetConverter(numbers.url, numbers.file_urls, ROWS)

    def dataset(rank: int, ranks: int) -> Any:
        share = {"cur_shard": rank, "shard_count": ranks}
        return converter.make_tf_dataset(4, num_epochs=1, order=name, seed=5, **share)

    ranks = [dataset(rank, 2) for rank in range(2)]
    seen = Counter(row for one in ranks for batch in one.take(3) for row in values(batch))
    state = ranks[1].state_dict(batches=3)
    after = range(2 if repeats(name) else 3)
    for rank in after:
        resumed = dataset(rank, len(after))
        resumed.load_state_dict(state)
        seen.update(row for batch in resumed for row in values(batch))
    check(name, seen)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("num_epochs", [1, 2])
def test_trace_names_the_rows_that_each_rank_reads(
    name: str, num_epochs: int, drop_last: bool, numbers: Dataset
) -> None:
    options: Any = {"num_epochs": num_epochs, "drop_last": drop_last}
    loaders = [torch_loader(numbers.url, name, rank, 3, 10, **options) for rank in range(3)]
    first, reading = loaders[0].trace(), iter(loaders[0])
    read = [values(batch) for batch in islice(reading, 3)]
    state = json.loads(json.dumps(loaders[0].state_dict()))
    reading.close()
    assert [first.rows(number).tolist() for number in range(3)] == read
    found = trace_of_state(state, numbers, batch_size=10, drop_last=drop_last)
    times = Counter[tuple[int, int, int]]()
    for rank, loader in enumerate(loaders):
        loader.load_state_dict(state)
        rest = [values(batch) for batch in loader]
        traced = [found.rows(number, rank).tolist() for number in range(len(rest))]
        assert traced == rest == [first.rows(n + 3, rank).tolist() for n in range(len(rest))]
        batch, row = len(rest) - 1, rest[-1][-1]
        assert found.where(row) <= (batch, rank)
        times.update((row, batch, rank) for batch, rows in enumerate(rest) for row in rows)
    columns = found.find(range(ROWS)).select(["row", "batch", "rank"]).to_pydict()
    assert Counter(zip(*columns.values(), strict=True)) == times


def test_state_of_another_order_is_refused(name: str, numbers: Dataset) -> None:
    here = torch_loader(numbers.url, name, 0, 1, 10)
    for other in order_names():
        loader = torch_loader(numbers.url, other, 0, 1, 10)
        list(islice(loader, 3))
        if other == name:
            here.load_state_dict(loader.state_dict())
        else:
            with pytest.raises(StateMismatchError, match=f"not taken in the order '{name}'"):
                here.load_state_dict(loader.state_dict())


def test_damaged_state_is_refused_without_another_error(name: str, numbers: Dataset) -> None:
    loader = torch_loader(numbers.url, name, 0, 1, 10)
    list(islice(loader, 3))
    state = loader.state_dict()
    ours = state["mdstorm"]
    for key in ("lanes", "settings", "first_epoch", "epoch_end", "dataset"):
        damaged = {**state, "mdstorm": {**ours, key: "?"}}
        with pytest.raises(StateMismatchError):
            torch_loader(numbers.url, name, 0, 1, 10).load_state_dict(damaged)


def test_dataset_yields_batches_of_every_epoch(name: str, numbers: Dataset) -> None:
    batches = numbers.batches(10, order=order_of(name), num_epochs=2)
    check(name, Counter(row for batch in batches for row in batch["number"].tolist()), 2)


def test_name_belongs_to_one_class(name: str) -> None:
    with pytest.raises(TypeError, match=f"already has the name '{name}'"):
        type("Other", (ExactOrder,), {"name": name})
