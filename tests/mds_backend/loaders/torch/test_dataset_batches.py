"""`StreamingDataset.as_batches`: whole batches for PyTorch's own loader."""

from collections import Counter
from itertools import islice
from typing import Any

import pytest
import torch
from tests.mds_backend.loaders.loaders import Negative, Own, in_either_order
from tests.mds_backend.small_datasets import write_dataset
from torch.utils.data import DataLoader

from mdstorm_backend import ExactOrder, Stream, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError

ROWS = 103
BATCH = 8


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    columns = {"number": list(range(ROWS)), "text": [f"row {n}" for n in range(ROWS)]}
    directory = tmp_path_factory.mktemp("data") / "data"
    return write_dataset(directory, columns, {"number": "long", "text": "string"}).url


def dataset_of(url: str, order: str, rank: int = 0, size: int = 1, **options: Any) -> Any:
    kind = options.pop("kind", StreamingDataset)
    if order == "elastic":
        return kind(local=url, shuffle=True, **options)
    exact = ExactOrder(3, shuffle_rows=True, rank=rank, world_size=size)
    return kind(local=url, order=exact, **options)


def plain(dataset: StreamingDataset, num_workers: int = 0, **options: Any) -> DataLoader[Any]:
    return DataLoader(
        dataset.as_batches(BATCH), batch_size=None, num_workers=num_workers, **options
    )


def listed(batches: Any) -> list[tuple[list[int], list[str]]]:
    return [(batch["number"].tolist(), batch["text"]) for batch in batches]


@in_either_order
@pytest.mark.parametrize("num_workers", [0, pytest.param(1, marks=pytest.mark.long), 2])
@pytest.mark.parametrize("num_epochs", [1, 2])
def test_the_batches_are_those_of_our_own_loader(
    url: str, order: str, num_workers: int, num_epochs: int
) -> None:
    ours = StreamingDataLoader(
        dataset_of(url, order, num_epochs=num_epochs), BATCH, num_workers=num_workers
    )
    theirs = plain(dataset_of(url, order, num_epochs=num_epochs), num_workers)
    assert len(theirs) == len(ours)
    found = listed(theirs)
    if num_epochs == 1 or num_workers < 2 or order == "exact":
        # Otherwise the worker that has fewer batches of an epoch goes on to the next one.
        assert found == listed(ours)
    assert Counter(n for batch, _ in found for n in batch) == dict.fromkeys(range(ROWS), num_epochs)


def test_spawned_workers_have_the_world_of_their_parent(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dataset = dataset_of(url, "elastic")
    loader = plain(dataset, 1, multiprocessing_context="spawn")
    iterator = iter(loader)
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert sum(len(batch["number"]) for batch in iterator) == ROWS // 2 + 1


@in_either_order
@pytest.mark.parametrize("num_workers", [1, 2])
def test_workers_go_on_where_the_state_of_the_parent_was_taken(
    url: str, order: str, num_workers: int
) -> None:
    first = plain(dataset_of(url, order))
    begun = listed(first) + listed(islice(first, 4))
    second = plain(dataset_of(url, order), num_workers)
    listed(second.dataset)
    second.dataset.load_state_dict(first.dataset.state_dict())
    assert second.dataset.state_dict() == first.dataset.state_dict()
    rest = listed(second)
    assert Counter(n for batch, _ in begun + rest for n in batch) == dict.fromkeys(range(ROWS), 2)


@in_either_order
@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_only_one_iteration_of_workers_goes_on_with_the_state_of_the_parent(
    url: str, order: str, method: str
) -> None:
    first = plain(dataset_of(url, order))
    begun = listed(islice(first, 4))
    second = plain(dataset_of(url, order), 2, multiprocessing_context=method)
    second.dataset.load_state_dict(first.dataset.state_dict())
    torch.manual_seed(1)
    rest = listed(second)
    torch.manual_seed(1)  # a seed that is the same each time does not join iterations
    following = listed(second)
    for batches in (begun + rest, following):
        assert Counter(n for batch, _ in batches for n in batch) == Counter(range(ROWS))
    assert following != begun + rest  # in permutations of its own


@in_either_order
def test_reading_goes_on_where_a_state_was_taken(url: str, order: str) -> None:
    whole = plain(dataset_of(url, order))
    expected = listed(whole) + listed(whole)
    first = plain(dataset_of(url, order))
    begun = listed(first) + listed(islice(first, 4))
    states = [first.dataset.state_dict(), first.dataset.dataset.state_dict()]
    assert states[0] == states[1]
    second = plain(dataset_of(url, order))
    second.dataset.load_state_dict(states[0])
    assert begun + listed(second) == expected
    third = dataset_of(url, order)
    third.load_state_dict(states[0])
    assert begun + listed(plain(third)) == expected


@pytest.mark.parametrize("num_workers", [0, 2])
def test_samples_of_a_subclass_are_collated(url: str, num_workers: int) -> None:
    found = listed(plain(dataset_of(url, "exact", kind=Negative), num_workers))
    expected = listed(plain(dataset_of(url, "exact")))
    assert [[-n for n in batch] for batch, _ in found] == [batch for batch, _ in expected]


def test_an_own_iterator_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Own overrides __iter__"):
        dataset_of(url, "exact", kind=Own).as_batches(BATCH)
    with pytest.raises(InvalidArgumentError, match="batch_size must be a positive"):
        dataset_of(url, "exact").as_batches(0)


def test_streams_of_one_dataset_are_read_as_batches(url: str) -> None:
    dataset = StreamingDataset(streams=[Stream(local=url, repeat=2)])
    batches = dataset.as_batches(BATCH)
    assert sum(len(batch["number"]) for batch in batches) == 2 * ROWS
    assert all(isinstance(batch["number"], torch.Tensor) for batch in batches)
