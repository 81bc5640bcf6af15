"""A different loader resumes exactly where the state was saved."""

import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kit.loaders import Same, column, saved, taken, torch_loader
from tests.kit.small_datasets import write_dataset

from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError

ROWS, SHARDS = 40, 8


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(state))  # type: ignore[no-any-return]


def test_state_with_another_seed_is_loaded_only_by_the_rank_that_took_it(
    numbers: Dataset,
) -> None:
    def loader(rank: int, seed: int) -> StreamingDataLoader:
        shuffle = {"seed": seed, "shuffle_rows": True, "rank": rank, "world_size": 2}
        return torch_loader(numbers, shuffle=shuffle)

    first, other = loader(0, 3), loader(0, 4)
    batches = iter(first)
    next(batches)
    state = first.state_dict()
    other.load_state_dict(state)
    assert column(other) == column(batches)
    with pytest.raises(StateMismatchError, match="seed 3, and rank 1 was given seed 4"):
        loader(1, 4).load_state_dict(state)


def test_state_with_infinite_epochs_resumes_with_the_next_batch(numbers: Dataset) -> None:
    options = {"shuffle": {"seed": 3, "window": ROWS}, "batch_size": 7, "num_epochs": None}
    whole = taken(torch_loader(numbers, **options), 30)
    first, second = torch_loader(numbers, **options), torch_loader(numbers, **options)
    assert taken(first, 17) == whole[:17]
    second.load_state_dict(first.state_dict())
    assert taken(second, 13) == whole[17:]


@pytest.mark.parametrize(
    ("workers_before", "workers_after", "done"),
    [*(pytest.param(*case, marks=pytest.mark.long) for case in [(0, 2, 3), (2, 0, 2)]), (2, 2, 3)],
)
def test_state_resumes_with_a_different_number_of_workers(
    numbers: Dataset, workers_before: int, workers_after: int, done: int
) -> None:
    options = {"shuffle": {"seed": 3, "window": 12}, "batch_size": 6, "num_epochs": 2}
    whole = column(torch_loader(numbers, **options))
    first = torch_loader(numbers, num_workers=workers_before, **options)
    assert taken(first, done) == whole[:done]
    second = torch_loader(numbers, num_workers=workers_after, **options)
    second.load_state_dict(through_json(first.state_dict()))
    assert column(second) == whole[done:]


def test_state_has_plain_values_and_mosaicml_streaming_keys(
    numbers: Dataset, tmp_path: Path
) -> None:
    loader = torch_loader(numbers, shuffle={"seed": 5, "rank": 1, "world_size": 2}, batch_size=6)
    taken(loader, 2)
    state = loader.state_dict()
    assert {key: value for key, value in state.items() if key != "mdstorm"} == {
        "epoch": 0,
        "sample_in_epoch": 24,
        "num_canonical_nodes": 2,
        "shuffle_seed": 5,
        "initial_physical_nodes": 2,
    }
    assert state["mdstorm"]["dataset"] == numbers.fingerprint
    torch.save(state, tmp_path / "state.pt")
    assert torch.load(tmp_path / "state.pt", weights_only=True) == state


@pytest.mark.parametrize("order", [None, ExactOrder(seed=1)], ids=["elastic", "exact"])
@pytest.mark.parametrize("value", [np.arange(2), [np.arange(2)], torch.zeros(2)], ids=str)
def test_state_that_contains_arrays_raises_error(numbers: Dataset, order: Any, value: Any) -> None:
    dataset = StreamingDataset(local=numbers.location.path, batch_size=4, order=order)
    loader = StreamingDataLoader(dataset, batch_size=4)
    state = next(loader.state_dict() for _ in loader)
    for key in ("epoch", "sample_in_epoch", "shuffle_seed"):
        with pytest.raises(StateMismatchError):
            loader.load_state_dict({**state, key: value})
    with pytest.raises(StateMismatchError):
        loader.load_state_dict({**state, "mdstorm": {**state["mdstorm"], "dataset": value}})


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"num_epochs": 2}, "num_epochs"),
        ({"num_epochs": None}, "num_epochs"),
        ({"transform": Same()}, "transform"),
        ({"shuffle": {"window": ROWS}}, "window"),
        ({"shuffle": {"shuffle_rows": True}}, "shuffle_rows"),
        ({"shuffle": {"shuffle_shards": True}}, "shuffle_shards"),
    ],
)
def test_state_with_different_shuffle_setting_raises_error(
    numbers: Dataset, options: dict[str, Any], word: str
) -> None:
    state = torch_loader(numbers).state_dict()
    with pytest.raises(StateMismatchError, match=f"{word}: .* there, .* here"):
        torch_loader(numbers, **options).load_state_dict(state)


def test_state_with_different_columns_raises_error(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, {"a": [1], "b": [2]}, {"a": "long", "b": "long"})
    state = torch_loader(dataset, columns=["a"]).state_dict()
    with pytest.raises(StateMismatchError, match="columns: "):
        torch_loader(dataset, columns=["b"]).load_state_dict(state)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("epoch", None, "'epoch' must be an integer"),
        ("epoch", 1, "its epoch in the pass is 1, counting from 0, but num_epochs is 1"),
        ("shuffle_seed", "1", "'shuffle_seed' must be an integer of at least 0, found '1'"),
        ("sample_in_epoch", -1, "'sample_in_epoch' must be an integer of at least 0, found -1"),
        ("sample_in_epoch", ROWS + 1, f"it is {ROWS + 1} samples into an epoch of {ROWS}"),
        ("finished", 1, "'finished' must be true or false, found 1"),
        ("lanes", "none", "'lanes' must be a list"),
        ("lanes", [[0, 1]], "'lanes' must be a list of"),
        ("lanes", [[0, 0, 0]], "'size' must be an integer of at least 1"),
        ("lanes", [[1, 1, 0]], "lanes that begin after"),
        ("lanes", [[0, 1, 0], [4, 2, 0], [4, 3, 0]], "lanes that begin after"),
        (
            "lanes",
            [[0, ROWS + 1, 0]],
            f"it refers to {ROWS + 1} ranks, but there are only {ROWS} rows",
        ),
        ("lanes", [], "does not contain the lanes"),
    ],
)
def test_damaged_states_raise_error(numbers: Dataset, key: str, value: Any, text: str) -> None:
    _, state = saved(torch_loader(numbers), 1)
    place = state if key in state else state["mdstorm"]
    place[key] = value
    with pytest.raises(StateMismatchError, match=text) as caught:
        torch_loader(numbers).load_state_dict(state)
    assert "start again" in str(caught.value)


@pytest.mark.parametrize(
    "key", ["dataset", "first_epoch", "world_size", "num_epochs", "lanes", "finished"]
)
def test_states_with_a_missing_key_raise_error(numbers: Dataset, key: str) -> None:
    _, state = saved(torch_loader(numbers), 1)
    del state["mdstorm"][key]
    with pytest.raises(StateMismatchError, match=key):
        torch_loader(numbers).load_state_dict(state)


def test_loader_with_in_order_false_raises_error(numbers: Dataset) -> None:
    source = StreamingDataset(local=numbers.url)
    with pytest.raises(InvalidArgumentError, match="in_order=False is not supported"):
        StreamingDataLoader(source, in_order=False)


def test_numpy_scalars_in_a_state_are_accepted(numbers: Dataset) -> None:
    shuffle = {"seed": np.int64(5), "window": np.int32(9), "rank": np.int64(0)}
    shuffle["shuffle_rows"] = np.bool_(True)
    options = {"batch_size": np.int64(4), "num_epochs": np.int64(2)}
    loader = torch_loader(numbers, shuffle={**shuffle, "world_size": np.int64(1)}, **options)
    found = list(chain.from_iterable(column(loader)))
    assert sorted(found) == sorted([*range(ROWS)] * 2)
    state = loader.state_dict()
    assert json.loads(json.dumps(state)) == state
    flag: Any = np.bool_(True)
    seeded = StreamingDataset(local=numbers.url, shuffle=flag, shuffle_seed=np.int64(5))
    json.dumps(StreamingDataLoader(seeded).state_dict())
