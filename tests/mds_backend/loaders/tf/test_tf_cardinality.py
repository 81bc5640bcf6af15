"""How many batches TensorFlow is told of."""

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tests.mds_backend.loaders.tf.test_tf_dataset import column, make
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.loaders.tf.tf_specs import INFINITE

ROWS, SHARDS = 100, 10

AUTO = {"follows_world": True}


def rows(batches: Any) -> list[int]:
    return [number for batch in column(batches) for number in batch]


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({}, 15),
        ({"num_epochs": 3}, 43),
        ({"num_epochs": None}, INFINITE),
        ({"shuffle": {"rank": 1, "world_size": 3}}, 5),
        ({"shuffle": AUTO}, 15),
    ],
)
def test_a_dataset_says_how_many_batches_it_has(
    numbers: Dataset, options: dict[str, Any], batches: int
) -> None:
    dataset = make(numbers, 7, **options)
    assert int(dataset.cardinality()) == batches
    if batches != INFINITE:
        assert len(dataset) == len(list(dataset)) == batches


def test_what_is_made_of_it_knows_as_well(numbers: Dataset) -> None:
    changed = make(numbers, 7).map(lambda batch: batch.number).prefetch(1).map(lambda n: n * 2)
    assert len(changed) == 15
    assert len(changed.repeat(3)) == len(list(changed.repeat(3))) == 45
    with tf.Graph().as_default():
        changed = make(numbers, 7).map(lambda batch: batch.number)
        assert isinstance(changed, tf.compat.v1.data.Dataset)
        changed.make_one_shot_iterator()


@pytest.mark.parametrize("taken", [0, 1])
def test_a_look_at_the_dataset_does_not_use_up_a_state(numbers: Dataset, taken: int) -> None:
    dataset = make(numbers, 7)
    list(dataset.take(20))
    dataset.load_state_dict(dataset.state_dict(batches=4))
    iterator = iter(dataset)
    for _ in range(taken):  # as Keras does to build a model
        next(iterator)
    assert rows(dataset) == list(range(28, 100))
    assert rows(dataset) == list(range(100))


def test_a_share_larger_than_the_one_it_was_made_for_is_refused(
    numbers: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    dataset = make(numbers, 7, shuffle=AUTO)
    assert rows(dataset) == list(range(50))
    monkeypatch.setenv("WORLD_SIZE", "1")
    with pytest.raises(tf.errors.OpError, match=r"created for a share of 8 batches, and .* 15"):
        list(dataset)


def test_a_share_smaller_than_the_one_it_was_made_for_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = make(write_numbers(tmp_path, 100, tasks=10), 7, shuffle=AUTO)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert rows(dataset) == list(range(50, 100))
