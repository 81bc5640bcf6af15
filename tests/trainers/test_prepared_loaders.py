"""Loaders that Accelerate prepares, in this process: what it may split, and what it is given."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.mds_backend.loaders.loaders import rows
from tests.trainers.conftest import ROWS
from torch.utils.data import DataLoader, Dataset, IterableDataset

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError


class Shard(IterableDataset[Any]):
    """Every other sample."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Any:
        for number, sample in enumerate(self.dataset):
            if number % 2 == 0:
                yield sample


class ByNumber(Dataset[Any]):
    """Samples by their number, whichever share the dataset would iterate."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, number: int) -> Any:
        return self.dataset[number]


@pytest.fixture(autouse=True)
def own_state() -> Iterator[None]:
    """Forget what Accelerate keeps in this process, which forks of other tests would inherit."""
    yield
    pytest.importorskip("accelerate.state").AcceleratorState._reset_state(reset_partial_state=True)


def prepare(loader: DataLoader[Any], processes: int = 2) -> Any:
    """Prepare a loader for the first of some processes, by Accelerate's own function."""
    data_loader = pytest.importorskip("accelerate.data_loader")
    return data_loader.prepare_data_loader(loader, num_processes=processes, process_index=0)


def share(url: str) -> StreamingDataset:
    return StreamingDataset(local=url, batch_size=4, order=ExactOrder(rank=1, world_size=2))


def test_a_share_is_not_split_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for dataset in (
        StreamingDataset(local=url, batch_size=4),
        share(url),
        StreamingDataLoader(share(url), 4).dataset,
        Shard(share(url)),
    ):
        with pytest.raises(InvalidArgumentError, match="among 2 ranks, so rows would"):
            prepare(DataLoader(dataset))


def test_all_rows_may_be_split(url: str) -> None:
    whole = StreamingDataset(local=url, order=ExactOrder())
    assert rows(prepare(DataLoader(Shard(whole)))) == list(range(0, ROWS, 4))
    assert rows(prepare(DataLoader(ByNumber(share(url))))) == list(range(0, ROWS, 2))


def test_other_data_are_split(url: str) -> None:
    assert len(list(prepare(DataLoader([1] * 8)))) == 4  # type: ignore[arg-type]


def test_one_process_splits_nothing(url: str) -> None:
    with pytest.warns(UserWarning, match="some ranks read 504 samples .* and others one more"):
        assert len(rows(prepare(DataLoader(share(url)), processes=1))) == ROWS // 2


def test_a_loader_that_is_prepared_stays_what_it_was(url: str) -> None:
    loader = StreamingDataLoader(StreamingDataset(local=url, order=ExactOrder()), 100)
    prepared = prepare(loader, processes=1)
    assert type(loader) is StreamingDataLoader
    assert rows(prepared) == rows(loader) == list(range(ROWS))


def test_a_loader_that_skips_batches_is_as_long_as_what_is_left(url: str) -> None:
    dataset = StreamingDataset(local=url, order=ExactOrder())
    prepared = prepare(StreamingDataLoader(dataset, 100), processes=1)
    rest = pytest.importorskip("accelerate").skip_first_batches(prepared, 9)
    assert len(rest) == len(prepared) - 9 == 2
    assert rows(rest) == list(range(900, ROWS))
    assert rows(prepared) == list(range(ROWS))
