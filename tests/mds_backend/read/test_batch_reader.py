import threading
from collections import Counter
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mds_backend.small_datasets import array_of, write_dataset, write_numbers

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.format.values.batch import Batch
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read.batch_reader import BatchReader
from mdstorm_backend.read.row_stream import Position

SIZES = [1, 2, 7, 23, 60]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Dataset]:
    """Numbers from 0, in shards of 3 or 4 rows."""
    directory = tmp_path_factory.mktemp("numbers")
    return {n: write_numbers(directory / str(n), n, tasks=-(-n // 4)) for n in SIZES}


def numbers(reader: BatchReader) -> list[list[int]]:
    return [batch["number"].tolist() for batch in reader]  # type: ignore[union-attr]


shuffles = st.fixed_dictionaries(
    {
        "seed": st.integers(1, 1 << 40),
        "shuffle_shards": st.booleans(),
        "shuffle_rows": st.booleans(),
        "window": st.sampled_from([0, 1, 5, 1000]),
    }
)
moderate = settings(deadline=None, max_examples=60)


@moderate
@given(
    st.sampled_from(SIZES),
    st.integers(1, 5),
    st.integers(1, 70),
    st.integers(1, 3),
    st.sampled_from([1, 8192]),
    st.sampled_from([0, 2]),
    shuffles,
)
def test_every_row_comes_once_an_epoch_and_all_ranks_have_as_many_batches(
    datasets: dict[int, Dataset],
    size: int,
    world_size: int,
    batch_size: int,
    epochs: int,
    block_rows: int,
    workers: int,
    shuffle: dict[str, Any],
) -> None:
    if size < world_size:
        return
    per_epoch: list[Counter[int]] = [Counter() for _ in range(epochs)]
    lengths = set()
    for rank in range(world_size):
        order = ExactOrder(**shuffle, rank=rank, world_size=world_size)
        reader = BatchReader(
            datasets[size],
            order,
            batch_size=batch_size,
            num_epochs=epochs,
            block_rows=block_rows,
            workers=workers,
        )
        batches = numbers(reader)
        assert len(batches) == len(reader)
        assert all(len(batch) <= batch_size for batch in batches)
        lengths.add(len(batches))
        rows = [n for batch in batches for n in batch]
        share = len(rows) // epochs
        assert share == reader.rows_per_epoch
        for epoch, found in enumerate(per_epoch):
            found.update(rows[epoch * share : (epoch + 1) * share])
    assert per_epoch == [Counter(range(size))] * epochs
    assert len(lengths) == 1


@moderate
@given(shuffles)
def test_rows_are_shuffled_within_windows_of_whole_shards(
    datasets: dict[int, Dataset], shuffle: dict[str, Any]
) -> None:
    dataset, order = datasets[60], ExactOrder(**shuffle)
    (rows,) = numbers(BatchReader(dataset, order, batch_size=60))
    first = np.cumsum([0, *dataset.shard_sizes]).tolist()
    groups: list[list[int]] = [[]]
    for piece in order.pieces(dataset.shard_sizes, 0):
        groups[-1] += range(first[piece.shard] + piece.start, first[piece.shard] + piece.stop)
        if len(groups[-1]) >= order.window:
            groups.append([])
    start = 0
    for group in groups:
        found = rows[start : start + len(group)]
        assert sorted(found) == sorted(group)
        if not order.shuffles:
            assert found == group
        start += len(group)


def test_a_shuffle_moves_rows_within_their_shard_or_window(datasets: dict[int, Dataset]) -> None:
    dataset = datasets[60]

    def read(**shuffle: Any) -> list[int]:
        order = ExactOrder(seed=3, **shuffle)
        return [n for b in numbers(BatchReader(dataset, order, batch_size=60)) for n in b]

    def shards(rows: list[int]) -> list[int]:
        return [n // 4 for n in rows]

    assert read() == list(range(60))
    assert read(shuffle_rows=True) != list(range(60))
    assert shards(read(shuffle_rows=True)) == shards(list(range(60)))
    assert shards(read(window=20)) != shards(list(range(60)))
    assert sorted(read(window=20)[:20]) == list(range(20))
    assert set(read(window=60)[:20]) - set(range(20))


def test_epochs_differ_and_a_seed_repeats_them(datasets: dict[int, Dataset]) -> None:
    order = ExactOrder(seed=7, window=60)
    first, second = (
        numbers(BatchReader(datasets[60], order, batch_size=60, num_epochs=3)) for _ in range(2)
    )
    assert first == second
    assert len({tuple(epoch) for epoch in first}) == 3
    other = ExactOrder(seed=8, window=60)
    assert numbers(BatchReader(datasets[60], other, batch_size=60)) != first[:1]


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_parts_deal_out_the_batches_in_turn(datasets: dict[int, Dataset], parts: int) -> None:
    def read(part: tuple[int, int]) -> list[list[int]]:
        order = ExactOrder(seed=1, shuffle_rows=True)
        return numbers(
            BatchReader(datasets[60], order, batch_size=7, num_epochs=2, part=part, block_rows=1)
        )

    whole = read((0, 1))
    for part in range(parts):
        assert read((part, parts)) == whole[part::parts]


def test_the_numbers_of_the_samples_are_known_without_reading(datasets: dict[int, Dataset]) -> None:
    order = ExactOrder(seed=2, shuffle_shards=True, window=9, rank=1, world_size=2)
    reader = BatchReader(datasets[60], order, batch_size=8, num_epochs=2)
    planned = [n for block in reader.planned() for n in block.numbers()]
    assert planned == [n for batch in numbers(reader) for n in batch]
    later = [n for block in reader.blocks(Position(epoch=4), 4) for n in block.batch["number"]]
    assert [n for block in reader.planned(Position(epoch=4), 4) for n in block.numbers()] == later


def test_a_block_has_whole_batches_and_about_the_rows_asked_for(
    datasets: dict[int, Dataset],
) -> None:
    def block_sizes(batch_size: int, block_rows: int) -> list[list[int]]:
        reader = BatchReader(
            datasets[60], ExactOrder(), batch_size=batch_size, block_rows=block_rows
        )
        return [block.sizes for block in reader.blocks()]

    assert block_sizes(8, 20) == [[8], [8, 8], [8, 8], [8, 8], [4]]
    assert block_sizes(25, 20) == [[25], [25], [10]]


@pytest.mark.parametrize("part", [(0, 1), (1, 3)])
def test_a_block_of_endless_epochs_needs_few_of_them(
    datasets: dict[int, Dataset], part: tuple[int, int]
) -> None:
    reader = BatchReader(datasets[2], ExactOrder(), batch_size=1, num_epochs=None, part=part)
    with closing(reader.blocks()) as blocks:
        first, *_, last = islice(blocks, 8)
    assert (len(first.sizes), len(last.sizes)) == (1, 32)
    assert last.ends[-1].epoch - last.ends[0].epoch <= 16 * part[1]


def test_batches_that_a_short_rank_cannot_fill_are_empty(tmp_path: Path) -> None:
    fields = {"a": "long", "pair": array_of("short"), "word": "string", "list": array_of("byte")}
    rows = {"a": [1, 2, 3], "pair": [[1, 2]] * 3, "word": ["x"] * 3, "list": [[1], [], None]}
    dataset = write_dataset(tmp_path, rows, fields)
    for block_rows in (1, 8192):
        reader = BatchReader(
            dataset, ExactOrder(rank=0, world_size=2), batch_size=1, block_rows=block_rows
        )
        full, empty = reader
        assert [len(values) for values in full.values()] == [1] * 4
        assert [len(values) for values in empty.values()] == [0] * 4
        for name, values in full.items():
            assert values.dtype == empty[name].dtype if isinstance(values, np.ndarray) else True
            assert type(values) is type(empty[name])


def test_rows_are_prepared_as_they_are_read(datasets: dict[int, Dataset]) -> None:
    def prepare(batch: Batch) -> Batch:
        return {"number": batch["number"] * 2}  # type: ignore[operator]

    reader = BatchReader(datasets[7], ExactOrder(), batch_size=4, prepare=prepare)
    assert numbers(reader) == [[0, 2, 4, 6], [8, 10, 12]]


class Same:
    """A transform that changes nothing."""

    columns = ("number",)

    def __call__(self, batch: Batch) -> Batch:
        return batch


@pytest.mark.parametrize("transform", [None, Same()])
def test_shards_are_opened_ahead_by_bytes(transform: Any, tmp_path: Path) -> None:
    """Five of them are under way together, though two threads decode."""
    together = threading.Barrier(5)

    class Remote:
        """A dataset whose shards come over a network."""

        is_mapped = False

        def __init__(self, dataset: Dataset) -> None:
            self._dataset = dataset
            self.bytes_ahead = sum(dataset.shard_bytes[:5])

        def __getattr__(self, name: str) -> Any:
            return getattr(self._dataset, name)

        def __len__(self) -> int:
            return len(self._dataset)

        def begin_shard(self, number: int) -> Any:
            together.wait(20)
            return self._dataset.begin_shard(number)

    dataset: Any = Remote(write_numbers(tmp_path, 100, tasks=10))
    found = numbers(BatchReader(dataset, ExactOrder(), batch_size=10, transform=transform))
    assert np.ravel(found).tolist() == list(range(100))
