from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.small_datasets import write_dataset, write_numbers

from mdstorm_backend import Dataset, ExactOrder
from mdstorm_backend.format import Batch
from mdstorm_backend.loaders import Batching, ReaderOptions
from mdstorm_backend.loaders.rest import Rest, samples_ahead
from mdstorm_backend.order import Place
from mdstorm_backend.read.reader import BLOCK_ROWS


class Renamed:
    """A transform to another column."""

    columns = ("c",)

    def __call__(self, batch: Batch) -> Batch:
        return {"c": batch["b"]}


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return write_dataset(tmp_path, {"a": [1, None], "b": [3, 4]}, {"a": "long", "b": "long"})


def options(dataset: Dataset, **given: Any) -> ReaderOptions:
    return ReaderOptions(dataset, ExactOrder(seed=1), **given)


def test_nulls_are_filled_before_the_transform(dataset: Dataset) -> None:
    class Plus(Renamed):
        def __call__(self, batch: Batch) -> Batch:
            return {"c": batch["a"] + batch["b"]}  # type: ignore[operator]

    filled = options(dataset, fill_nulls={"a": 10}, transform=Plus())
    blocks = Rest(filled, Batching(2), Place()).blocks()
    assert [block.batch["c"].tolist() for block in blocks] == [[4, 14]]  # type: ignore[union-attr]


def test_some_batches_are_ahead_however_large_their_samples_are(dataset: Dataset) -> None:
    assert samples_ahead(options(dataset), 16) == BLOCK_ROWS
    dataset.nbytes = 1 << 40
    assert samples_ahead(options(dataset), 16) == 8 * 16
    assert samples_ahead(options(dataset, predownload=3), 16) == 3


def test_so_many_bytes_are_downloaded_ahead_however_small_samples_are(dataset: Dataset) -> None:
    dataset.nbytes, dataset.bytes_ahead = 2 * len(dataset), 1_000_000
    assert samples_ahead(options(dataset), 16) == 500_000


@pytest.mark.parametrize(("part", "num_workers"), [(0, 0), (1, 3)])
def test_a_block_of_endless_epochs_needs_few_of_them(
    tmp_path: Path, part: int, num_workers: int
) -> None:
    order = ExactOrder().resolved()
    options = ReaderOptions(write_numbers(tmp_path, 2), order, num_epochs=None)
    rest = Rest(options, Batching(1, num_workers=num_workers), Place())
    blocks: Any = rest.blocks(part)
    with closing(blocks):
        first, *_, last = islice(blocks, 8)
    assert (len(first.sizes), len(last.sizes)) == (1, 32)
