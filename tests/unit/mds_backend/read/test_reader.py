"""Batches in exact order or by sample number, from shards that are opened ahead of use."""

import threading
import weakref
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.small_datasets import array_of, write_dataset, write_numbers
from tests.unit.mds_backend.read.readers import (
    OnNumbers,
    batches,
    exact,
    flat,
    numbered,
    pieces,
    reader_of,
    values,
)

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import DatasetNotFoundError
from mdstorm_backend.format import as_arrow
from mdstorm_backend.order import Batching, ExactOrder, Position
from mdstorm_backend.read.reader import SMALL, batches_per_block


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Sixty consecutive numbers, in shards of four rows."""
    return write_numbers(tmp_path_factory.mktemp("numbers"), 60, tasks=15)


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_each_part_of_a_pass_reads_every_nth_batch(dataset: Dataset, parts: int) -> None:
    def read(part: tuple[int, int]) -> list[list[int]]:
        order = ExactOrder(seed=1, shuffle_rows=True)
        return values(exact(dataset, order, 7, 2, part=part, block_rows=1))

    whole = read((0, 1))
    assert len(whole) == -(-120 // 7)
    for part in range(parts):
        assert read((part, parts)) == whole[part::parts]


@pytest.mark.parametrize("place", [Position(), Position(epoch=4, first_epoch=4)])
def test_plan_lists_sample_numbers_without_reading(dataset: Dataset, place: Position) -> None:
    order = ExactOrder(seed=2, shuffle_shards=True, window=9, rank=1, world_size=2)
    planned = exact(dataset, order, 8, 2, place=place, unread=True)
    found = [n for block in planned for n in block.numbers()]
    assert len(found) == 60
    assert found == flat(exact(dataset, order, 8, 2, place=place))


def test_rank_without_remaining_rows_gets_an_empty_batch_with_the_same_types(
    tmp_path: Path,
) -> None:
    fields = {"a": "long", "pair": array_of("short"), "word": "string", "list": array_of("byte")}
    rows = {"a": [1, 2, 3], "pair": [[1, 2]] * 3, "word": ["x"] * 3, "list": [[1], [], None]}
    dataset = write_dataset(tmp_path, rows, fields)
    short = ExactOrder(rank=1, world_size=2)
    for block_rows in (1, 8192):
        full, empty = batches(exact(dataset, short, 1, block_rows=block_rows))
        for name, column in full.items():
            assert (len(column), len(empty[name])) == (1, 0)
            assert type(column) is type(empty[name])
            assert as_arrow(column).type == as_arrow(empty[name]).type


ROWS = 90


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Numbers, words and ragged arrays, including nulls, in shards of different sizes."""
    columns = {
        "number": range(ROWS),
        "word": [None if n % 7 == 3 else f"word {n}" for n in range(ROWS)],
        "list": [list(range(n % 4)) for n in range(ROWS)],
    }
    fields = {"number": "long", "word": "string", "list": array_of("integer")}
    directory = tmp_path_factory.mktemp("mixed")
    return write_dataset(directory, columns, fields, shard_size=2_500, tasks=2)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Integers and nullable floats, in shards of fixed-size records."""
    columns = {"number": range(ROWS), "x": [None if n % 5 == 0 else n / 2 for n in range(ROWS)]}
    fields = {"number": "long", "x": "double"}
    directory = tmp_path_factory.mktemp("fixed")
    return write_dataset(directory, columns, fields, shard_size=2_000, tasks=3)


ids = st.lists(st.integers(0, ROWS - 1), max_size=60)


@given(
    st.one_of(ids, ids.map(sorted), st.integers(0, ROWS).map(range)),
    st.integers(1, 20),
    st.sampled_from([1, 8, 1 << 13]),
    st.sampled_from([0, 2]),
)
def test_samples_are_read_in_the_requested_order(
    mixed: Dataset,
    fixed: Dataset,
    numbers: list[int] | range,
    batch_size: int,
    block_rows: int,
    workers: int,
) -> None:
    for dataset in (mixed, fixed):
        options = {"block_rows": block_rows, "workers": workers, "exact_nulls": True}
        found = list(batches(numbered(dataset, numbers, batch_size, **options)))
        sizes = [len(batch["number"]) for batch in found]
        assert sizes[:-1] == [batch_size] * (len(sizes) - 1)
        expected = dataset.to_table().take(np.array(numbers, np.int64)).to_pydict()
        for name in dataset.schema.names:
            column = [v for batch in found for v in as_arrow(batch[name]).to_pylist()]
            assert column == expected[name]


@pytest.mark.parametrize(
    ("nbytes", "batch_size", "block_rows", "expected"),
    [
        (4 << 20, 2, 16, [1, 2, 4, 8, 8, 8, 8, 6]),
        (4 << 20, 8, 20, [1, 2, 2, 2, 2, 2, 1]),
        (4 << 20, 25, 20, [1, 1, 1, 1]),  # at least one batch
        (1 << 20, 2, 16, [8, 8, 8, 8, 8, 5]),  # small table
        (1 << 20, 2, 1000, [45]),
    ],
)
def test_blocks_have_whole_batches_and_begin_small_unless_the_table_is_small(
    fixed: Dataset, nbytes: int, batch_size: int, block_rows: int, expected: list[int]
) -> None:
    dataset: Any = Recording(fixed, is_mapped=True)
    dataset.nbytes = nbytes
    blocks = list(numbered(dataset, range(ROWS), batch_size, block_rows=block_rows))
    assert [len(block.sizes) for block in blocks] == expected
    assert {size for block in blocks for size in block.sizes[:-1]} <= {batch_size}
    assert sum(sum(block.sizes) for block in blocks) == ROWS


@pytest.mark.parametrize(
    ("nbytes_per_row", "columns", "batch_size", "batches"),
    [
        (8, 1, 1000, 16),  # limited by rows
        (8, 1, 100_000, 1),  # at least one batch
        (1 << 20, 1, 2, 4),  # limited by bytes
        (64 << 20, 1, 1, 1),
        (1 << 14, 2048, 256, 8),  # the byte limit is higher with many columns
        (1 << 20, 1 << 17, 2, 32),
    ],
)
def test_block_is_limited_in_rows_and_bytes(
    nbytes_per_row: int, columns: int, batch_size: int, batches: int
) -> None:
    dataset = MagicMock(nbytes=1000 * nbytes_per_row, schema=range(columns))
    dataset.__len__.return_value = 1000
    assert batches_per_block(dataset, 16_384, batch_size) == batches


def test_transform_gets_the_rows_of_a_batch(fixed: Dataset) -> None:
    even = OnNumbers(lambda numbers: numbers[numbers % 2 == 0])
    blocks = list(numbered(fixed, [1, 2, 4, 3, 5, 7, 8], 3, transform=even))
    assert [list(block.batch["number"]) for block in blocks] == [[2, 4], [], [8]]
    assert [(block.sizes, block.offsets) for block in blocks] == [
        ([2], [1]),
        ([0], [2]),
        ([1], [3]),
    ]


class Recording:
    """A dataset that records which shards are opened and by which threads."""

    def __init__(
        self, dataset: Dataset, *, is_mapped: bool, together: threading.Barrier | None = None
    ) -> None:
        self._dataset, self._together, self.is_mapped = dataset, together, is_mapped
        self.opened: list[int] = []
        self.threads: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def __len__(self) -> int:
        return len(self._dataset)

    def begin_shard(self, number: int) -> Any:
        if self._together is not None:
            self._together.wait(20)
        if self.find_open(number) is None:
            self.opened.append(number)
        self.threads.add(threading.current_thread().name.rstrip("0123456789"))
        return self._dataset.begin_shard(number)


@pytest.mark.parametrize("nbytes", [1 << 20, 4 << 20])
@pytest.mark.parametrize(("samples_ahead", "opened"), [(0, 1), (20, 3), (1000, 10)])
def test_shards_are_opened_the_given_number_of_samples_ahead(
    tmp_path: Path, samples_ahead: int, opened: int, nbytes: int
) -> None:
    dataset: Any = Recording(write_numbers(tmp_path, 100, tasks=10), is_mapped=True)
    dataset.nbytes = nbytes
    blocks = exact(dataset, batch_size=10, block_rows=10, samples_ahead=samples_ahead)
    for used, _ in enumerate(blocks):
        # From the second block on, the next block is filled ahead unless the table is small.
        filled = used + (used > 0 and nbytes > SMALL)
        assert dataset.opened == list(range(min(opened + filled, 10)))
    assert dataset.threads == {"MainThread"}


@pytest.mark.parametrize(
    ("read", "options"), [(exact, {}), (pieces, {"transform": OnNumbers(lambda n: n)})]
)
def test_threads_open_remote_shards_in_parallel(tmp_path: Path, read: Any, options: Any) -> None:
    """Five shards are opened at the same time even though only two threads decode."""
    numbers = write_numbers(tmp_path, 100, tasks=10)
    dataset: Any = Recording(numbers, is_mapped=False, together=threading.Barrier(5))
    found = flat(read(dataset, batch_size=10, samples_ahead=50, **options))
    assert found == list(range(100))
    assert dataset.threads == {"mdstorm-open_"}
    assert sorted(dataset.opened) == list(range(10))


@pytest.mark.parametrize("samples_ahead", [20, 1000])
def test_used_blocks_are_freed(tmp_path: Path, samples_ahead: int) -> None:
    dataset = write_numbers(tmp_path, 100, tasks=10)
    used = []
    for block in exact(dataset, batch_size=10, block_rows=10, samples_ahead=samples_ahead):
        used.append(weakref.ref(block))
        assert sum(one() is not None for one in used) <= 3
    assert len(used) == 10


def test_many_shards_do_not_delay_the_first_batch(tmp_path: Path) -> None:
    dataset: Any = Recording(write_numbers(tmp_path, 200, tasks=100), is_mapped=True)
    blocks = exact(dataset, batch_size=2, samples_ahead=1000)
    next(blocks)
    assert len(dataset.opened) < 100
    assert sum(len(block.sizes) for block in blocks) == 99


def test_infinite_pass_plans_one_epoch_ahead(tmp_path: Path) -> None:
    dataset = write_numbers(tmp_path, 100, tasks=10)
    batching = Batching(10, num_epochs=None)
    samples = ExactOrder(seed=1).plan(batching, dataset.bounds, Position(), "").samples()
    planned = 0

    def sizes() -> Iterator[int]:
        nonlocal planned
        for size in samples.sizes:
            planned += size
            yield size

    reader = reader_of(dataset, 10, block_rows=10, samples_ahead=65_536)
    blocks: Any = reader.blocks(samples._replace(sizes=sizes()))
    with closing(blocks):
        next(blocks)
    assert planned == 110


@pytest.mark.parametrize("is_mapped", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_unopenable_shard_raises_error_at_its_first_batch(
    tmp_path: Path, is_mapped: bool, workers: int
) -> None:
    dataset = write_numbers(tmp_path, 100, tasks=10)
    Path(dataset.location.path, dataset.index.shards[5].raw_data.basename).unlink()
    source: Any = Recording(dataset, is_mapped=is_mapped)
    seen: list[int] = []
    before = set(threading.enumerate())
    found = batches(exact(source, batch_size=10, block_rows=10, workers=workers))
    with pytest.raises(DatasetNotFoundError, match="is gone"):
        seen.extend(int(np.asarray(batch["number"])[0]) for batch in found)
    assert seen == [0, 10, 20, 30, 40]
    assert not set(threading.enumerate()) - before
