"""What a loader refuses, what its copies know, and which iteration its state describes."""

import copy
import json
import pickle
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mds_backend.loaders.loaders import Same, column, torch_loader
from tests.mds_backend.small_datasets import write_dataset

from mdstorm_backend import Dataset, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError

ROWS, SHARDS = 40, 8
SHUFFLED = {"seed": 5, "window": ROWS}


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
def test_a_state_of_another_reading_is_refused(
    numbers: Dataset, options: dict[str, Any], word: str
) -> None:
    state = torch_loader(numbers).state_dict()
    with pytest.raises(StateMismatchError, match=f"{word}: .* there, .* here"):
        torch_loader(numbers, **options).load_state_dict(state)


def test_a_state_of_other_columns_is_refused(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path, {"a": [1], "b": [2]}, {"a": "long", "b": "long"})
    state = torch_loader(dataset, columns=["a"]).state_dict()
    with pytest.raises(StateMismatchError, match="columns: "):
        torch_loader(dataset, columns=["b"]).load_state_dict(state)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("epoch", None, "'epoch' has to be an integer"),
        ("epoch", 7, "it stands in epoch 7 of a pass of 1"),
        ("shuffle_seed", "1", "'shuffle_seed' has to be an integer from 0 on, found '1'"),
        ("sample_in_epoch", -1, "'sample_in_epoch' has to be an integer from 0 on, found -1"),
        ("sample_in_epoch", ROWS + 1, f"it stands after {ROWS + 1} samples of an epoch of {ROWS}"),
        ("finished", 1, "'finished' has to be true or false, found 1"),
        ("lanes", "none", "'lanes' has to be a list"),
        ("lanes", [[0, 1]], "'lanes' has to be a list of"),
        ("lanes", [[0, 0, 0]], "'size' has to be an integer from 1 on"),
        ("lanes", [[1, 1, 0]], "lanes that begin after"),
        ("lanes", [[0, 1, 0], [4, 2, 0], [4, 3, 0]], "lanes that begin after"),
        ("lanes", [[0, ROWS + 1, 0]], f"it names {ROWS + 1} ranks, and there are {ROWS} rows"),
        ("lanes", [], "does not say how its epoch lies"),
    ],
)
def test_damaged_states_are_refused(numbers: Dataset, key: str, value: Any, text: str) -> None:
    loader = torch_loader(numbers)
    next(iter(loader))
    state = loader.state_dict()
    place = state if key in state else state["mdstorm"]
    for _ in range(2):
        place[key] = value
        with pytest.raises(StateMismatchError, match=text.replace("(", r"\(")) as caught:
            torch_loader(numbers).load_state_dict(state)
        assert "start again" in str(caught.value)


@pytest.mark.parametrize(
    "key", ["dataset", "first_epoch", "world_size", "num_epochs", "lanes", "finished"]
)
def test_states_without_a_key_are_refused(numbers: Dataset, key: str) -> None:
    loader = torch_loader(numbers)
    next(iter(loader))
    state = loader.state_dict()
    del state["mdstorm"][key]
    with pytest.raises(StateMismatchError, match=key):
        torch_loader(numbers).load_state_dict(state)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])  # noqa: S301
@pytest.mark.parametrize("done", [0, 3, ROWS // 4])
def test_a_copy_goes_on_from_the_same_state(numbers: Dataset, duplicate: Any, done: int) -> None:
    loader = torch_loader(numbers, shuffle=SHUFFLED)
    iterator = iter(loader)
    list(islice(iterator, done))
    other = duplicate(loader)
    assert other.state_dict() == loader.state_dict()
    assert column(other) == (column(iterator) or column(loader))
    other.close()


def test_batches_out_of_order_are_refused(numbers: Dataset) -> None:
    source = StreamingDataset(local=numbers.url)
    with pytest.raises(InvalidArgumentError, match="in_order=False would let"):
        StreamingDataLoader(source, in_order=False)


def test_integers_of_numpy_are_integers(numbers: Dataset) -> None:
    shuffle = {"seed": np.int64(5), "window": np.int32(9), "rank": np.int64(0)}
    loader = torch_loader(
        numbers,
        batch_size=np.int64(4),
        num_epochs=np.int64(2),
        shuffle={**shuffle, "world_size": np.int64(1)},
    )
    found = list(chain.from_iterable(column(loader)))
    assert sorted(found) == sorted([*range(ROWS)] * 2)
    state = loader.state_dict()
    assert json.loads(json.dumps(state)) == state
    seeded = StreamingDataset(local=numbers.url, shuffle=True, shuffle_seed=np.int64(5))
    json.dumps(StreamingDataLoader(seeded).state_dict())
