"""A single-process loader: its batches, and its threads, which end with the pass."""

import gc
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.kit.loaders import column, rows, torch_loader
from tests.kit.small_datasets import write_dataset

from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import CorruptDatasetError, DatasetNotFoundError

ROWS, SHARDS = 100, 10


@pytest.mark.parametrize(("batch_size", "num_workers"), [(30, 0), (1000, 2)])
def test_rows_are_yielded_in_stored_order(
    numbers: Dataset, batch_size: int, num_workers: int
) -> None:
    loader = torch_loader(numbers, batch_size=batch_size, num_workers=num_workers)
    batches = column(loader)
    assert list(chain.from_iterable(batches)) == list(range(100))
    assert len(batches) == len(loader)


def test_dataset_is_opened_on_first_use(tmp_path: Path) -> None:
    source = StreamingDataset(local=str(tmp_path / "none"), order=ExactOrder())
    loader = StreamingDataLoader(source)
    with pytest.raises(DatasetNotFoundError, match="it has no index"), loader:
        pytest.fail("the dataset does not exist")
    with pytest.raises(DatasetNotFoundError):
        next(iter(loader))


def test_tensors_are_writable_and_do_not_share_memory(numbers: Dataset) -> None:
    loader = torch_loader(numbers, batch_size=10)
    batches = list(loader)
    for i, batch in enumerate(batches):
        assert batch["number"].tolist() == list(range(10 * i, 10 * i + 10))
        batch["number"].fill_(-1)
    assert rows(loader) == list(range(100))


@pytest.mark.parametrize("has_gpu", [True, False])
def test_tensors_are_pinned_if_a_gpu_is_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_gpu: bool
) -> None:
    fields = {"number": "long", "word": "string"}
    dataset = write_dataset(tmp_path, {"number": [1, 2], "word": ["a", "b"]}, fields)
    loader = StreamingDataLoader(StreamingDataset(local=dataset.url), 1, pin_memory=True)
    pinned: list[torch.Tensor] = []
    empty = torch.empty

    def allocate(*size: int, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        memory = empty(*size, **options)
        if pin_memory:
            pinned.append(memory)
        return memory

    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    monkeypatch.setattr(torch, "empty", allocate)
    found = [(batch["number"].item(), batch["word"]) for batch in loader]
    assert [tensor[0].item() for tensor in pinned] == ([1, 2] if has_gpu else [])
    assert found == [(1, ["a"]), (2, ["b"])]


#: Threads from other tests in this process, whose iterators TensorFlow keeps alive.
_OTHERS: set[threading.Thread] = set()


def reading_threads() -> list[threading.Thread]:
    found = (t for t in threading.enumerate() if t.name.startswith("mdstorm-prefetch"))
    return [thread for thread in found if thread not in _OTHERS]


def join_threads() -> None:
    """Wait until the reading threads started by this test have ended."""
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
def words(tmp_path: Path) -> Dataset:
    """Words and numbers; threads decode the words, because their sizes vary."""
    rows = {"word": [str(i) for i in range(200)], "number": range(200)}
    return write_dataset(tmp_path, rows, {"word": "string", "number": "long"}, tasks=10)


def test_finished_pass_leaves_no_threads(words: Dataset) -> None:
    batches = iter(torch_loader(words, batch_size=10))
    next(batches)
    assert reading_threads()
    assert len(list(batches)) == 19
    assert reading_threads() == []


def test_threads_end_when_their_iterator_is_dropped(words: Dataset) -> None:
    loader = torch_loader(words, batch_size=10)
    next(iter(loader))
    gc.collect()
    join_threads()
    assert len(list(loader)) == 20


def test_closed_loader_has_no_threads_and_can_be_read_again(words: Dataset) -> None:
    loader = torch_loader(words, batch_size=10)
    for _ in range(2):
        with loader:
            iterators = [iter(loader), iter(loader)]
            for iterator in iterators:
                next(iterator)
            assert reading_threads()
        assert reading_threads() == []
        assert [list(iterator) for iterator in iterators] == [[], []]
    assert len(list(loader)) == 20


def test_error_leaves_no_threads(words: Dataset) -> None:
    last = words.index.shards[-1].raw_data.basename
    Path(words.location.path, last).write_bytes(b"damaged")
    with pytest.raises(CorruptDatasetError):
        list(torch_loader(words, batch_size=10))
    assert reading_threads() == []


def test_loader_without_workers_starts_no_threads(words: Dataset) -> None:
    batches = iter(torch_loader(words, batch_size=10, workers=0))
    assert torch.is_tensor(next(batches)["number"])
    assert reading_threads() == []
    batches.close()


@pytest.mark.parametrize("num_epochs", [1, None])
def test_pytorch_loader_around_a_loader_raises_error_with_the_fix(
    numbers: Dataset, num_epochs: int | None
) -> None:
    made = torch_loader(numbers, batch_size=10, num_epochs=num_epochs)
    wrapped = torch.utils.data.DataLoader(made)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"DataLoader wraps .*iterate over .* instead"):
        next(iter(wrapped))
