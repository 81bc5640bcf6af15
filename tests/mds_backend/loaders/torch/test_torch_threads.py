"""The threads that read ahead: there while a pass runs, gone with it."""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.mds_backend.loaders.loaders import torch_loader
from tests.mds_backend.small_datasets import write_dataset

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import CorruptDatasetError

#: Threads of other tests in this process, whose iterators TensorFlow never lets go of.
_OTHERS: set[threading.Thread] = set()


def reading_threads() -> list[threading.Thread]:
    found = (t for t in threading.enumerate() if t.name.startswith("mdstorm-prefetch"))
    return [thread for thread in found if thread not in _OTHERS]


def join_threads() -> None:
    """Wait for threads to end that nobody has waited for yet."""
    for thread in reading_threads():
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture(autouse=True)
def _no_threads_are_left() -> Iterator[None]:
    gc.collect()
    _OTHERS.update(reading_threads())
    yield
    gc.collect()
    join_threads()


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Words and numbers: variable-size columns are decoded by threads."""
    rows = {"word": [str(i) for i in range(200)], "number": range(200)}
    return write_dataset(tmp_path, rows, {"word": "string", "number": "long"}, tasks=10)


def test_a_finished_pass_leaves_no_thread(dataset: Dataset) -> None:
    batches = iter(torch_loader(dataset, batch_size=10))
    next(batches)
    assert reading_threads()
    assert len(list(batches)) == 19
    assert reading_threads() == []


def test_the_threads_of_a_dropped_iterator_end(dataset: Dataset) -> None:
    loader = torch_loader(dataset, batch_size=10)
    for _ in loader:
        assert reading_threads()
        break
    gc.collect()
    join_threads()
    assert len(list(loader)) == 20


def test_leaving_the_block_ends_the_threads_of_every_iterator(dataset: Dataset) -> None:
    with torch_loader(dataset, batch_size=10) as loader:
        iterators = [iter(loader), iter(loader)]
        for iterator in iterators:
            next(iterator)
        assert reading_threads()
    assert reading_threads() == []
    assert [list(iterator) for iterator in iterators] == [[], []]


def test_a_closed_loader_can_be_read_again(dataset: Dataset) -> None:
    loader = torch_loader(dataset, batch_size=10)
    for _ in range(2):
        next(iter(loader))
        loader.close()
        assert reading_threads() == []
    assert len(list(loader)) == 20


def test_an_error_leaves_no_thread(dataset: Dataset) -> None:
    last = dataset.index.shards[-1].raw_data.basename
    Path(dataset.location.path, last).write_bytes(b"damaged")
    with pytest.raises(CorruptDatasetError):
        list(torch_loader(dataset, batch_size=10))
    assert reading_threads() == []


def test_without_workers_there_is_no_thread(dataset: Dataset) -> None:
    batches = iter(torch_loader(dataset, batch_size=10, workers=0))
    assert torch.is_tensor(next(batches)["number"])
    assert reading_threads() == []
    batches.close()
