"""Samples by number, in batches: any order, repetitions, shards of several layouts."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mds_backend.small_datasets import array_of, write_dataset, write_numbers

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import DatasetNotFoundError
from mdstorm_backend.format.values.batch import Batch, as_arrow
from mdstorm_backend.read.elastic_reader import ElasticReader

ROWS = 90


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Numbers, words and ragged arrays, some of them null, in shards of several sizes."""
    values = {
        "number": range(ROWS),
        "word": [None if n % 7 == 3 else f"word {n}" for n in range(ROWS)],
        "list": [list(range(n % 4)) for n in range(ROWS)],
    }
    fields = {"number": "long", "word": "string", "list": array_of("integer")}
    directory = tmp_path_factory.mktemp("mixed")
    return write_dataset(directory, values, fields, shard_size=2_500, tasks=2)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Numbers, and others with nulls, in shards of records."""
    values = {"number": range(ROWS), "x": [None if n % 5 == 0 else n / 2 for n in range(ROWS)]}
    fields = {"number": "long", "x": "double"}
    directory = tmp_path_factory.mktemp("fixed")
    return write_dataset(directory, values, fields, shard_size=2_000, tasks=3)


@pytest.fixture(params=["mixed", "fixed"])
def dataset(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def read(reader: ElasticReader) -> Iterator[Batch]:
    for block in reader.blocks():
        yield from block.batches()


ids = st.lists(st.integers(0, ROWS - 1), max_size=60)


@settings(deadline=None, max_examples=50)
@given(
    st.one_of(ids, ids.map(sorted), st.integers(0, ROWS).map(lambda n: list(range(n)))),
    st.integers(1, 20),
    st.sampled_from([1, 8, 1 << 13]),
    st.booleans(),
    st.sampled_from([0, 2]),
)
def test_samples_come_as_asked_for(
    mixed: Dataset,
    fixed: Dataset,
    numbers: list[int],
    batch_size: int,
    block_rows: int,
    drop_last: bool,
    workers: int,
) -> None:
    for dataset in (mixed, fixed):
        table = dataset.to_table()
        reader = ElasticReader(
            dataset,
            np.array(numbers, np.int64),
            batch_size=batch_size,
            block_rows=block_rows,
            drop_last=drop_last,
            exact_nulls=True,
            workers=workers,
        )
        kept = numbers[: len(numbers) // batch_size * batch_size] if drop_last else numbers
        batches = list(read(reader))
        sizes = [len(batch["number"]) for batch in batches]
        assert sizes[:-1] == [batch_size] * (len(sizes) - 1)
        expected = table.take(np.array(kept, np.int64)).to_pydict()
        for name in dataset.schema.names:
            found = [v for batch in batches for v in as_arrow(batch[name]).to_pylist()]
            assert found == expected[name]


def test_the_first_blocks_are_small(fixed: Dataset) -> None:
    reader = ElasticReader(fixed, np.arange(ROWS), batch_size=2, block_rows=16)
    assert [len(block.sizes) for block in reader.blocks()] == [1, 2, 4, 8, 8, 8, 8, 6]


def test_a_transform_gets_the_rows_of_a_batch(fixed: Dataset) -> None:
    class Even:
        columns = ("number",)

        def __call__(self, batch: Batch) -> Batch:
            number = np.asarray(batch["number"])
            return {"number": number[number % 2 == 0]}

    wanted = np.array([1, 2, 4, 3, 5, 7, 8])
    blocks = list(ElasticReader(fixed, wanted, batch_size=3, transform=Even()).blocks())
    assert [list(block.batch["number"]) for block in blocks] == [[2, 4], [], [8]]
    assert [(block.sizes, block.counts) for block in blocks] == [([2], [3]), ([0], [3]), ([1], [1])]


class Recording:
    """A dataset that notes which shards are opened, and by whom."""

    def __init__(self, dataset: Dataset, *, is_mapped: bool) -> None:
        self._dataset = dataset
        self.is_mapped = is_mapped
        self.opened: list[int] = []
        self.threads: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def __len__(self) -> int:
        return len(self._dataset)

    def begin_shard(self, number: int) -> Any:
        if self.find_open(number) is None:
            self.opened.append(number)
        self.threads.add(threading.current_thread().name.rstrip("0123456789"))
        return self._dataset.begin_shard(number)


@pytest.mark.parametrize(("predownload", "opened"), [(0, 1), (20, 3), (1000, 10)])
def test_shards_are_opened_so_many_samples_ahead(
    tmp_path: Path, predownload: int, opened: int
) -> None:
    dataset = Recording(write_numbers(tmp_path, 100, tasks=10), is_mapped=True)
    options = {"batch_size": 10, "block_rows": 10, "predownload": predownload}
    blocks = ElasticReader(dataset, np.arange(100), **options).blocks()
    for used, _ in enumerate(blocks):
        filled = used + (used > 0)  # from the second one on a block is filled ahead
        assert dataset.opened == list(range(min(opened + filled, 10)))
    assert dataset.threads == {"MainThread"}


def test_threads_open_what_is_not_only_mapped(tmp_path: Path) -> None:
    dataset = Recording(write_numbers(tmp_path, 100, tasks=10), is_mapped=False)
    reader = ElasticReader(dataset, np.arange(100), batch_size=10, predownload=1000)
    assert [n for batch in read(reader) for n in np.asarray(batch["number"])] == list(range(100))
    assert dataset.threads == {"mdstorm-open_"}
    assert sorted(dataset.opened) == list(range(10))


def test_many_shards_do_not_delay_the_first_batch(tmp_path: Path) -> None:
    numbers = write_numbers(tmp_path, 200, tasks=100)
    dataset = Recording(numbers, is_mapped=True)
    reader = ElasticReader(dataset, np.arange(200), batch_size=2, predownload=1000)
    blocks = reader.blocks()
    next(blocks)
    assert len(dataset.opened) < 100
    assert sum(len(block.sizes) for block in blocks) == 99


@pytest.mark.parametrize("is_mapped", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_what_cannot_be_opened_is_an_error_in_its_place(
    tmp_path: Path, is_mapped: bool, workers: int
) -> None:
    dataset = write_numbers(tmp_path, 100, tasks=10)
    Path(dataset.location.path, dataset.index.shards[5].raw_data.basename).unlink()
    source = Recording(dataset, is_mapped=is_mapped)
    reader = ElasticReader(source, np.arange(100), batch_size=10, block_rows=10, workers=workers)
    seen: list[int] = []
    with pytest.raises(DatasetNotFoundError, match="is gone"):
        seen.extend(int(np.asarray(batch["number"])[0]) for batch in read(reader))
    assert seen == list(range(0, 10 * len(seen), 10))
    assert len(seen) <= 5
    assert not [t.name for t in threading.enumerate() if t.name.startswith("mdstorm")]
