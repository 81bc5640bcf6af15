"""The exact order, from the numbers of the samples to their values."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.read.readers import batches, exact, flat, values
from tests.mds_backend.small_datasets import array_of, write_dataset, write_numbers

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.exact_sampler import ExactSampler
from mdstorm_backend.order.sampler import Place

SIZES = [1, 2, 7, 23, 60]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Dataset]:
    """Numbers from 0, in shards of 3 or 4 rows."""
    directory = tmp_path_factory.mktemp("numbers")
    return {n: write_numbers(directory / str(n), n, tasks=-(-n // 4)) for n in SIZES}


shuffles = st.fixed_dictionaries(
    {
        "seed": st.integers(1, 1 << 40),
        "shuffle_shards": st.booleans(),
        "shuffle_rows": st.booleans(),
        "window": st.sampled_from([0, 1, 5, 1000]),
    }
)


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
    dataset = datasets[size]
    per_epoch: list[Counter[int]] = [Counter() for _ in range(epochs)]
    for rank in range(world_size):
        order = ExactOrder(**shuffle, rank=rank, world_size=world_size)
        options: dict[str, Any] = {"block_rows": block_rows, "workers": workers}
        found = values(exact(dataset, order, batch_size, epochs, **options))
        assert len(found) == ExactSampler(order, dataset.bounds, batch_size, epochs).length()
        assert all(len(batch) <= batch_size for batch in found)
        rows = [n for batch in found for n in batch]
        for epoch, counted in enumerate(per_epoch):
            share = len(order.rows(size, epoch * size))
            assert share in (size // world_size, -(-size // world_size))
            counted.update(rows[:share])
            del rows[:share]
        assert not rows
    assert per_epoch == [Counter(range(size))] * epochs


@given(st.integers(1, 5), st.integers(1, 70), st.integers(1, 3))
def test_dropping_the_last_batch_leaves_those_that_all_ranks_fill(
    datasets: dict[int, Dataset], world_size: int, batch_size: int, epochs: int
) -> None:
    for rank in range(world_size):
        order = ExactOrder(rank=rank, world_size=world_size)
        full = values(exact(datasets[23], order, batch_size, epochs, drop_last=True))
        assert len(full) == epochs * 23 // (world_size * batch_size)
        assert {len(batch) for batch in full} <= {batch_size}
        rows = [n for batch in full for n in batch]
        assert rows == flat(exact(datasets[23], order, batch_size, epochs))[: len(rows)]


@given(shuffles)
def test_rows_are_shuffled_within_windows_of_whole_shards(
    datasets: dict[int, Dataset], shuffle: dict[str, Any]
) -> None:
    dataset, order = datasets[60], ExactOrder(**shuffle)
    (rows,) = values(exact(dataset, order, 60))
    groups: list[list[int]] = [[]]
    for piece in order.pieces(dataset.bounds, range(60), 0):
        groups[-1] += piece
        if len(groups[-1]) >= order.window:
            groups.append([])
    start = 0
    for group in groups:
        found = rows[start : start + len(group)]
        assert sorted(found) == sorted(group)
        if not order.shuffles:
            assert found == group
        start += len(group)


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_parts_deal_out_the_batches_in_turn(datasets: dict[int, Dataset], parts: int) -> None:
    def read(part: tuple[int, int]) -> list[list[int]]:
        order = ExactOrder(seed=1, shuffle_rows=True)
        return values(exact(datasets[60], order, 7, 2, part=part, block_rows=1))

    whole = read((0, 1))
    assert len(whole) == -(-120 // 7)
    for part in range(parts):
        assert read((part, parts)) == whole[part::parts]


@pytest.mark.parametrize("place", [Place(), Place(epoch=4, first_epoch=4)])
def test_the_numbers_of_the_samples_are_known_without_reading(
    datasets: dict[int, Dataset], place: Place
) -> None:
    order = ExactOrder(seed=2, shuffle_shards=True, window=9, rank=1, world_size=2)
    planned = exact(datasets[60], order, 8, 2, place=place, unread=True)
    found = [n for block in planned for n in block.numbers()]
    assert len(found) == 60
    assert found == flat(exact(datasets[60], order, 8, 2, place=place))


def test_batches_that_a_short_rank_cannot_fill_are_empty(tmp_path: Path) -> None:
    fields = {"a": "long", "pair": array_of("short"), "word": "string", "list": array_of("byte")}
    rows = {"a": [1, 2, 3], "pair": [[1, 2]] * 3, "word": ["x"] * 3, "list": [[1], [], None]}
    dataset = write_dataset(tmp_path, rows, fields)
    for block_rows in (1, 8192):
        short = ExactOrder(rank=1, world_size=2)
        full, empty = batches(exact(dataset, short, 1, block_rows=block_rows))
        assert [len(column) for column in full.values()] == [1] * 4
        assert [len(column) for column in empty.values()] == [0] * 4
        for name, column in full.items():
            assert column.dtype == empty[name].dtype if isinstance(column, np.ndarray) else True
            assert type(column) is type(empty[name])
