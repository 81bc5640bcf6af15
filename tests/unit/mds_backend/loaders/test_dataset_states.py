"""Dataset states and epochs, as used by torch, torchdata and Composer."""

import json
import pickle
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.loaders import (
    CountingItself,
    Own,
    OwnStates,
    Where,
    dataset_in,
    in_either_order,
    loader_in,
    rows,
    taken,
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


@pytest.mark.filterwarnings("ignore:some ranks read:UserWarning")
@pytest.mark.parametrize("seen", [ROWS // 2, None])
def test_sample_state_of_each_rank_is_the_same_if_one_has_a_sample_more(
    url: str, seen: int | None
) -> None:
    seed = dataset_of(url, "exact").state_dict()
    states = []
    for rank in range(2):
        dataset = dataset_of(url, "exact", World(rank, 2))
        dataset.load_state_dict(seed)
        iterator = iter(dataset)
        samples(iterator, seen)
        states.append(dataset.state_dict())
    assert states[0] == states[1]
    rest: list[int] = []
    for rank in range(2):
        dataset = dataset_of(url, "exact", World(rank, 2))
        dataset.load_state_dict(states[rank])
        rest += samples(dataset)
    assert len(rest) == len(set(rest)) == (ROWS if seen is None else ROWS - 2 * seen)


@in_either_order
@pytest.mark.parametrize("num_epochs", [1, 2])
@pytest.mark.parametrize("seen", [0, 1, 50, ROWS - 1, ROWS])
def test_sample_iteration_resumes_from_state_dict_called_without_arguments(
    url: str, order: str, num_epochs: int, seen: int
) -> None:
    first, second = (dataset_of(url, order, num_epochs=num_epochs) for _ in range(2))
    if order == "exact":
        second.load_state_dict(first.state_dict())  # so that both use the same seed
    expected = samples(second)
    iterator = iter(first)
    begun = samples(iterator, seen)
    state = json.loads(json.dumps(first.state_dict()))
    third = dataset_of(url, order, num_epochs=num_epochs)
    third.load_state_dict(state)
    if seen < ROWS * num_epochs:
        assert begun + samples(third) == expected
        assert samples(iterator) == expected[seen:]
    first.load_state_dict(state)
    assert first.state_dict()["sample_in_epoch"] == state["sample_in_epoch"]
    assert samples(third) == samples(second) or seen == ROWS * num_epochs


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
    for wrong, expected in ((state, message), ("state", "a state must be a dict that state_dict")):
        with pytest.raises(StateMismatchError, match=expected):
            loader_of(dataset).load_state_dict(wrong)  # type: ignore[arg-type]
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
    loaders = [iter(StreamingDataLoader(dataset, batch_size)) for dataset in before]
    seen = [rows(islice(loader, batches)) for loader in loaders]
    states = [dataset.state_dict(sum(map(len, seen)), True) for dataset in before]
    for rank, dataset in enumerate(after):
        state = states[rank if of_rank is None else of_rank]
        dataset.load_state_dict(json.loads(json.dumps(state)))
        rest = rows(islice(loaders[rank], 20))
        found = rows(islice(StreamingDataLoader(dataset, batch_size), 20))
        assert found == rest or not rest  # after the last batch, the next pass begins
        assert len(found) > 0


@pytest.mark.filterwarnings("ignore:some ranks read:UserWarning")
def test_sample_count_beyond_last_row_means_end_of_pass(url: str) -> None:
    dataset = StreamingDataset(local=url, order=ExactOrder(1, world_size=4), num_epochs=2)
    _ = list(dataset)
    beyond = 2 * ROWS + 2
    assert dataset.state_dict(beyond) == dataset.state_dict(2 * ROWS)
    dataset.load_state_dict(dataset.state_dict(beyond, from_beginning=False))
    assert dataset.state_dict()["epoch"] == 1


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


@in_either_order
@pytest.mark.parametrize(("num_workers", "of_loader"), [(0, False), (0, True), (2, True)])
def test_set_epoch_selects_the_loaders_next_pass(
    url: str, order: str, num_workers: int, of_loader: bool
) -> None:
    dataset = dataset_of(url, order)
    loader = loader_of(dataset, num_workers=num_workers, persistent_workers=num_workers > 0)
    target = loader if of_loader else dataset
    with loader:
        epochs = [rows(loader) for _ in range(3)]
        for epoch in (1, 1, 0, 2):
            target.set_epoch(epoch)
            assert rows(loader) == epochs[epoch]
        target.set_epoch(0)
        assert [rows(loader) for _ in range(3)] == epochs


#: Dataset and loader classes.
KINDS: dict[str, tuple[type[StreamingDataset], type[StreamingDataLoader]]] = {
    "plain": (StreamingDataset, StreamingDataLoader),
    "counting itself": (StreamingDataset, CountingItself),
    "own states": (OwnStates, StreamingDataLoader),
    "own iteration": (Own, StreamingDataLoader),
}
of_each_kind = pytest.mark.parametrize("kind", list(KINDS))
#: The number of batches read in a pass, or None for all.
after_some_or_all = pytest.mark.parametrize("batches", [1, 3, None])


def loader_of_kind(kind: str, order: str, url: str) -> StreamingDataLoader:
    dataset, loader = KINDS[kind]
    return loader(dataset_in(order, url, BATCH, dataset), BATCH)


def epoch_of(url: str, order: str, epoch: int) -> list[int]:
    loader = loader_in(order, url, BATCH)
    loader.set_epoch(epoch)
    return rows(loader)


@in_either_order
@of_each_kind
@after_some_or_all
def test_state_after_dataset_set_epoch_resumes_with_that_epoch(
    url: str, order: str, kind: str, batches: int | None
) -> None:
    loader, resumed = (loader_of_kind(kind, order, url) for _ in range(2))
    taken(loader, batches)
    loader.dataset.set_epoch(5)  # type: ignore[attr-defined]
    resumed.load_state_dict(loader.state_dict() or {})
    assert rows(resumed) == epoch_of(url, order, 5)


@in_either_order
@of_each_kind
@pytest.mark.parametrize("batches", [2, 5])
def test_set_epoch_within_a_loop_affects_neither_pass_nor_later_states(
    url: str, order: str, kind: str, batches: int
) -> None:
    loader, resumed = (loader_of_kind(kind, order, url) for _ in range(2))
    seen, iterator = [], iter(loader)
    for number, batch in enumerate(iterator):
        seen += batch["number"].tolist()
        if number == batches - 1:
            loader.set_epoch(5)
        if number == batches:
            resumed.load_state_dict(loader.state_dict() or {})
    assert seen == epoch_of(url, order, 0)
    assert rows(resumed) == seen[(batches + 1) * BATCH :]
    assert rows(loader) == epoch_of(url, order, 5)


def test_set_epoch_while_workers_read_a_pass_does_not_change_its_state(url: str) -> None:
    dataset = dataset_of(url, "elastic", num_epochs=2)
    iterator = iter(DataLoader(dataset, BATCH, num_workers=2))
    next(iterator)
    dataset.set_epoch(5)
    assert len(list(iterator)) > ROWS // BATCH
    assert dataset.state_dict(0)["epoch"] == 1
    next(iter(DataLoader(dataset, BATCH, num_workers=2)))
    assert dataset.state_dict(0)["epoch"] == 5


@in_either_order
@pytest.mark.parametrize("makes_loader", [False, True])
def test_set_epoch_within_a_pass_over_samples_affects_only_the_next_pass(
    url: str, order: str, makes_loader: bool
) -> None:
    def made() -> tuple[StreamingDataset, Any]:
        dataset = dataset_of(url, order, num_epochs=3)
        return dataset, StreamingDataLoader(dataset, batch_size=None) if makes_loader else dataset

    (dataset, reading), (other, resuming) = made(), made()
    other.load_state_dict(dataset.state_dict())  # with the seed
    expected = samples(other)
    iterator = iter(reading)
    found = samples(iterator, 10)
    dataset.set_epoch(7)
    found += samples(iterator, ROWS)
    state = reading.state_dict()
    resuming.load_state_dict(state)
    assert found + samples(iterator) == expected
    assert samples(resuming) == expected[len(found) :]
    next(iter(reading))
    assert dataset.state_dict()["epoch"] == 7


@in_either_order
@pytest.mark.parametrize(("seen", "more"), [(1, 10), (50, ROWS), (ROWS, 10)])
def test_epoch_set_after_samples_is_the_position_until_the_next_sample(
    url: str, order: str, seen: int, more: int
) -> None:
    dataset, resumed, again = (dataset_of(url, order, num_epochs=2) for _ in range(3))
    iterator = iter(dataset)
    found = samples(iterator, seen)
    dataset.set_epoch(5)
    state = dataset.state_dict()
    assert (state["epoch"], state["sample_in_epoch"]) == (5, 0)
    resumed.load_state_dict(state)
    found += samples(iterator, more)
    again.load_state_dict(dataset.state_dict())
    assert len(found) == seen + more
    assert samples(again) == samples(iterator)
    assert samples(resumed) == samples(dataset)


@in_either_order
@pytest.mark.parametrize("kind", ["plain", "counting itself"])
def test_set_epoch_on_another_loader_of_the_dataset_is_the_position_until_the_next_batch(
    url: str, order: str, kind: str
) -> None:
    loader, resumed = (loader_of_kind(kind, order, url) for _ in range(2))
    other = KINDS[kind][1](loader.dataset, BATCH)
    begun = iter(loader)
    seen = rows(islice(begun, 2))
    other.set_epoch(5)
    assert loader.state_dict() == other.state_dict()
    seen += rows(islice(begun, 1))
    resumed.load_state_dict(loader.state_dict() or {})
    assert rows(resumed) == rows(begun) == epoch_of(url, order, 0)[len(seen) :]
    assert rows(other) == epoch_of(url, order, 5)


@pytest.mark.matrix
@in_either_order
@of_each_kind
@after_some_or_all
@pytest.mark.parametrize("is_pickled", [False, True])
def test_copied_loader_begins_with_the_epoch_from_set_epoch(
    url: str, order: str, kind: str, batches: int | None, is_pickled: bool
) -> None:
    def copied(loader: StreamingDataLoader) -> StreamingDataLoader:
        return pickle.loads(pickle.dumps(loader)) if is_pickled else deepcopy(loader)  # noqa: S301

    loader, expected = loader_of_kind(kind, order, url), epoch_of(url, order, 5)
    taken(loader, batches)
    other = copied(loader)
    other.set_epoch(5)
    again = copied(other)
    resumed = loader_of_kind(kind, order, url)
    resumed.load_state_dict(other.state_dict() or {})
    assert rows(resumed) == rows(other) == expected
    again.set_epoch(5)
    assert rows(again) == expected


def test_copy_made_after_an_epoch_without_batches_begins_with_the_next_epoch(url: str) -> None:
    loader = loader_in("elastic", url, ROWS + 1, drop_last=True)
    assert rows(loader) == []
    assert (deepcopy(loader).state_dict() or {})["epoch"] == 1


def test_state_taken_after_an_epoch_without_batches_resumes_with_the_next_epoch(url: str) -> None:
    loader, resumed = (loader_in("elastic", url, ROWS + 1, drop_last=True) for _ in range(2))
    assert rows(loader) == []
    resumed.load_state_dict(loader.state_dict() or {})
    assert (resumed.state_dict() or {})["epoch"] == 1


@in_either_order
def test_pickled_dataset_begins_with_the_epoch_from_set_epoch(url: str, order: str) -> None:
    dataset = dataset_in(order, url, BATCH)
    rows(loader_of(dataset))
    other = pickle.loads(pickle.dumps(dataset))  # noqa: S301
    other.set_epoch(5)
    assert rows(loader_of(other)) == epoch_of(url, order, 5)


@in_either_order
@pytest.mark.parametrize("of_samples", [False, True])
@pytest.mark.parametrize("seen", [3, ROWS // BATCH + 3, 2 * (ROWS // BATCH) + 5])
def test_loaded_state_can_be_saved_before_reading(
    url: str, order: str, of_samples: bool, seen: int
) -> None:
    def read(dataset: Any, count: int | None = None) -> list[int]:
        if of_samples:
            return samples(dataset, None if count is None else count * BATCH)
        return rows(islice(loader_of(dataset), count))

    first = dataset_of(url, order, num_epochs=3)
    begun = read(first, seen)
    state = first.state_dict()
    for _ in range(2):
        again = dataset_of(url, order, num_epochs=3)
        again.load_state_dict(json.loads(json.dumps(state)))
        state = again.state_dict()
    assert Counter(begun + read(again)) == dict.fromkeys(range(ROWS), 3)
    assert state["mdstorm"]["first_epoch"] == 0


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
def test_state_loaded_into_dataset_replaces_its_loaders_state(url: str, order: str) -> None:
    dataset = dataset_of(url, order)
    loader = loader_of(dataset)
    rows(islice(loader, 2))
    state = dataset.state_dict()
    rows(islice(loader, 2))
    dataset.load_state_dict(state)
    del state["mdstorm"]["batch_size"]  # which only the loader knows
    assert dataset.state_dict() == state
    assert len(rows(loader)) == ROWS - 2 * BATCH


@in_either_order
def test_last_loaded_state_of_dataset_or_loader_is_used(url: str, order: str) -> None:
    dataset = dataset_of(url, order)
    loader, other = loader_of(dataset), loader_of(dataset_of(url, order))
    seen, states = [], []
    for batch in islice(other, 5):
        seen += rows([batch])
        states.append(other.state_dict())
    for each, state in ((dataset, states[0]), (loader, states[1]), (dataset, states[4])):
        each.load_state_dict(state)
        assert dataset.state_dict()["sample_in_epoch"] == state["sample_in_epoch"]
    assert Counter(seen + rows(loader)) == Counter(range(ROWS))


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
