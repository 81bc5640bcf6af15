"""Dataset states and epochs, as used by torch, torchdata and Composer."""

import json
from collections.abc import Iterable
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.loaders import (
    Where,
    in_either_order,
    loader_in,
    rows,
)
from tests.kit.small_datasets import write_numbers
from torch.utils.data import DataLoader

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.order import World

ROWS, SHARDS = 101, 2
BATCH = 8


def dataset_of(url: str, order: str, world: World | None = None, **options: Any) -> Any:
    if order == "elastic":
        return StreamingDataset(local=url, batch_size=BATCH, shuffle=True, **options)
    world = world or World()
    exact = ExactOrder(None, shuffle_rows=True, rank=world.rank, world_size=world.size)
    return StreamingDataset(local=url, order=exact, **options)


def loader_of(dataset: StreamingDataset, **options: Any) -> StreamingDataLoader:
    return StreamingDataLoader(dataset, BATCH, **options)


def samples(dataset: Iterable[Any], count: int | None = None) -> list[int]:
    return [int(sample["number"]) for sample in islice(dataset, count)]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("settings", 7, "'settings' must be a mapping, found 7"),
        ("first_epoch", "x", "'first_epoch' must be an integer"),
        ("first_epoch", 1, "its pass began with epoch 1, but it is in epoch 0"),
        ("sample_in_epoch", ROWS + 1, f"samples into an epoch that ends after {ROWS}"),
        ("epoch_end", "4", "'epoch_end' must be an integer"),
        ("epoch", -2, "'epoch' must be an integer"),
        ("sample_in_epoch", "4", "'sample_in_epoch' must be an integer"),
        ("num_canonical_nodes", 0, "'num_canonical_nodes' must be an integer"),
        ("shuffle_seed", True, "'shuffle_seed' must be an integer"),
        ("initial_physical_nodes", 1.0, "'initial_physical_nodes' must be an integer"),
        # Each node gets a sample, so laying out the samples of so many nodes would take forever.
        ("num_canonical_nodes", 10**7, "is 10000000, but at most"),
        ("initial_physical_nodes", 10**30, "is 10{30}, but at most"),
    ],
)
def test_damaged_states_raise_error_and_change_nothing(
    url: str, key: str, value: Any, message: str
) -> None:
    loader = loader_of(dataset_of(url, "elastic"))
    rows(loader)
    state = loader.state_dict()
    (state if key in state else state["mdstorm"])[key] = value
    dataset = dataset_of(url, "elastic")
    wrong: dict[str, Any] = {
        message: state,
        "a state must be a dict that state_dict": "state",
        "not taken in the order 'elastic'": {**state, "mdstorm": 3},
    }
    for expected, each in wrong.items():
        for loads in (dataset, loader_of(dataset)):
            with pytest.raises(StateMismatchError, match=expected):
                loads.load_state_dict(each)
    assert dataset.next_epoch == 0


def nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


@in_either_order
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epoch": -1, "sample_in_epoch": 12}, "12 samples of epoch -1, before the first epoch"),
        ({"shuffle_seed": nested(100_000)}, "nested more than 32 levels deep"),
    ],
    ids=["before the first epoch", "nested"],
)
def test_states_that_no_loader_could_write_raise_state_mismatch(
    url: str, order: str, changes: dict[str, Any], message: str
) -> None:
    dataset = dataset_of(url, order)
    with pytest.raises(StateMismatchError, match=message):
        loader_of(dataset).load_state_dict({**dataset.state_dict(0), **changes})


@in_either_order
def test_dataset_state_raises_error_while_pytorch_workers_are_reading(url: str, order: str) -> None:
    dataset = dataset_of(url, order)
    list(DataLoader(dataset, BATCH, num_workers=2))
    with pytest.raises(StateMismatchError, match="read in worker processes"):
        dataset.state_dict()


@in_either_order
def test_sample_count_that_does_not_match_worker_batches_raises_error(url: str, order: str) -> None:
    dataset = dataset_of(url, order, **({"batch_size": BATCH} if order == "exact" else {}))
    batches = iter(DataLoader(dataset, 5, num_workers=2))
    seen = [len(next(batches)["number"]) for _ in range(3)]
    with pytest.raises(StateMismatchError, match="pass the batch_size of the DataLoader"):
        dataset.state_dict(sum(seen), False)


@pytest.mark.matrix
@pytest.mark.parametrize("num_epochs", [1, pytest.param(3, marks=pytest.mark.long), None])
@pytest.mark.parametrize(
    "batches", [1, 63, *(pytest.param(batches, marks=pytest.mark.long) for batches in (0, 7))]
)
@pytest.mark.parametrize("batch_size", [BATCH, 50])
@pytest.mark.parametrize(
    ("num_rows", "of_rank"), [(100, 0), pytest.param(100, 1, marks=pytest.mark.long), (101, None)]
)
def test_dataset_state_saved_and_loaded_as_in_composer_resumes_in_exact_order(
    tmp_path: Path,
    num_epochs: int | None,
    batches: int,
    batch_size: int,
    num_rows: int,
    of_rank: int | None,
) -> None:
    # Composer counts samples on all ranks, and gets the state from the loader's dataset.
    url = write_numbers(tmp_path / "data", num_rows).url
    worlds = [World(rank, 2) for rank in range(2)]
    before = [dataset_of(url, "exact", world, num_epochs=num_epochs) for world in worlds]
    after = [dataset_of(url, "exact", world, num_epochs=num_epochs) for world in worlds]
    loaders = [StreamingDataLoader(dataset, batch_size) for dataset in before]
    begun = [*map(iter, loaders)]
    seen = [rows(islice(one, batches)) for one in begun]
    states = [dataset.state_dict(sum(map(len, seen)), True) for dataset in before]
    for rank, dataset in enumerate(after):
        state = states[rank if of_rank is None else of_rank]
        dataset.load_state_dict(json.loads(json.dumps(state)))
        # After the last batch, the next pass begins.
        expected = rows(islice(begun[rank], 20)) or rows(islice(loaders[rank], 20))
        assert rows(islice(StreamingDataLoader(dataset, batch_size), 20)) == expected
        assert len(expected) > 0


@pytest.mark.filterwarnings("ignore:some ranks read:UserWarning")
def test_sample_count_beyond_last_row_means_end_of_pass(url: str) -> None:
    dataset = StreamingDataset(local=url, order=ExactOrder(1, world_size=4), num_epochs=2)
    _ = list(dataset)
    beyond = 2 * ROWS + 2
    assert dataset.state_dict(beyond) == dataset.state_dict(2 * ROWS)
    dataset.load_state_dict(dataset.state_dict(beyond, from_beginning=False))
    assert dataset.state_dict()["epoch"] == 1


@pytest.mark.matrix
@in_either_order
@pytest.mark.parametrize("num_workers", [0, 2])
def test_dataset_state_with_0_samples_resumes_with_next_epoch_if_end_not_requested(
    url: str, order: str, num_workers: int
) -> None:
    # A trainer that takes exactly `len(loader)` batches does not request the end.
    dataset, whole, again = (dataset_of(url, order) for _ in range(3))
    whole.load_state_dict(dataset.state_dict())  # so that both use the same seed
    epochs = [rows(loader_of(whole)) for _ in range(2)]
    with loader_of(dataset, num_workers=num_workers) as loader:
        assert rows(islice(loader, len(loader))) == epochs[0]
    again.load_state_dict(dataset.state_dict(0, True))
    assert rows(loader_of(again)) == epochs[1]


@in_either_order
def test_dataset_state_with_0_samples_resumes_with_epoch_whose_last_batch_is_in_use(
    url: str, order: str
) -> None:
    dataset, again = (dataset_of(url, order) for _ in range(2))
    batches = iter(StreamingDataLoader(dataset, ROWS))
    epoch = rows(islice(batches, 1))
    again.load_state_dict(dataset.state_dict(0, True))
    assert rows(StreamingDataLoader(again, ROWS)) == epoch
    del batches


def test_dataset_state_accepts_a_sample_count_within_a_batch(url: str) -> None:
    dataset = dataset_of(url, "exact", World(1, 2))
    rows(loader_of(dataset))
    assert dataset.state_dict(0, True)["mdstorm"]["finished"]
    state = dataset.state_dict(20, True)
    assert (state["epoch"], state["sample_in_epoch"]) == (0, 20)


def test_set_epoch_while_workers_read_a_pass_does_not_change_its_state(url: str) -> None:
    dataset = dataset_of(url, "elastic", num_epochs=2)
    iterator = iter(DataLoader(dataset, BATCH, num_workers=2))
    next(iterator)
    dataset.set_epoch(5)
    assert len(list(iterator)) > ROWS // BATCH
    assert dataset.state_dict(0)["epoch"] == 1
    next(iter(DataLoader(dataset, BATCH, num_workers=2)))
    assert dataset.state_dict(0)["epoch"] == 5


def test_state_after_set_epoch_of_a_loader_is_of_that_loader(url: str) -> None:
    dataset = dataset_of(url, "exact")
    other, loader = loader_of(dataset), StreamingDataLoader(dataset, BATCH + 1)
    iterator = iter(other)
    next(iterator)
    loader.set_epoch(2)
    assert dataset.state_dict() == loader.state_dict() != other.state_dict()


def test_copy_made_after_an_epoch_without_batches_begins_with_the_next_epoch(url: str) -> None:
    loader = loader_in("elastic", url, ROWS + 1, drop_last=True)
    assert rows(loader) == []
    assert (deepcopy(loader).state_dict() or {})["epoch"] == 1


def test_state_taken_after_an_epoch_without_batches_resumes_with_the_next_epoch(url: str) -> None:
    loader, resumed = (loader_in("elastic", url, ROWS + 1, drop_last=True) for _ in range(2))
    assert rows(loader) == []
    resumed.load_state_dict(loader.state_dict() or {})
    assert (resumed.state_dict() or {})["epoch"] == 1


@pytest.mark.parametrize("from_beginning", [True, False])
def test_dataset_state_with_row_dropping_transform_requires_a_loader(
    url: str, from_beginning: bool
) -> None:
    def dataset() -> Any:
        return dataset_of(url, "exact", transform=Where(lambda number: number % 2 == 0))

    one, again = dataset(), dataset()
    seen = rows(islice(loader_of(one), 3))
    again.load_state_dict(one.state_dict(3 * BATCH, from_beginning))
    assert sorted(seen + rows(loader_of(again))) == list(range(0, ROWS, 2))
    for reading in (dataset(), one):
        samples(reading, 5)  # read without a loader, so rows are not counted
        with pytest.raises(StateMismatchError, match="may change the number of rows"):
            reading.state_dict(3 * BATCH, from_beginning)
        with pytest.raises(StateMismatchError, match="may change the number of rows"):
            reading.state_dict()


@pytest.mark.filterwarnings("ignore:some ranks read")
def test_dataset_state_of_one_of_two_ranks_with_a_transform_requires_a_loader(url: str) -> None:
    reading = dataset_of(url, "exact", World(0, 2), transform=Where(lambda number: number >= 0))
    samples(reading, 5)
    with pytest.raises(StateMismatchError, match="may change the number of rows"):
        reading.state_dict()


@in_either_order
@pytest.mark.parametrize("num_samples", [-1, 8.0, "8"])
def test_state_with_an_invalid_number_of_samples_raises_error(
    url: str, order: str, num_samples: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match="num_samples must be an integer of at least 0"):
        dataset_of(url, order).state_dict(num_samples)


@in_either_order
def test_state_with_numpy_number_of_samples_equals_that_with_an_integer(
    url: str, order: str
) -> None:
    state = dataset_of(url, order).state_dict(np.int64(8))  # type: ignore[arg-type]
    assert json.loads(json.dumps(state)) == dataset_of(url, order).state_dict(8)
