"""Datasets of the same kind share traced functions, which keep no dataset alive."""

import gc
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tests.kit.loaders import options_of
from tests.kit.small_datasets import write_dataset

from mdstorm_backend import Dataset, ExactOrder
from mdstorm_backend.loaders import ReaderOptions
from mdstorm_backend.loaders.tf import make_tf_dataset, tf_traced

ROWS, SHARDS = 100, 10
WHOLE = list(range(ROWS))


def in_order(dataset: Dataset, **options: Any) -> ReaderOptions:
    return options_of(dataset, ExactOrder().resolved(), **options)


def make(dataset: Dataset, batch_size: int = 30, **options: Any) -> Any:
    return make_tf_dataset(lambda: in_order(dataset, **options), batch_size=batch_size)


def rows(dataset: Any) -> list[int]:
    return [number for batch in dataset for number in batch.number.numpy().tolist()]


def test_datasets_of_the_same_kind_are_traced_once(numbers: Dataset) -> None:
    assert rows(make(numbers)) == WHOLE
    before = tf_traced.traced_function.cache_info().misses
    assert [rows(make(numbers, size, num_epochs=2)) for size in (7, 30)] == [WHOLE * 2] * 2
    assert tf_traced.traced_function.cache_info().misses == before


def test_datasets_of_different_kinds_return_their_own_batches(
    tmp_path: Path, numbers: Dataset
) -> None:
    other = write_dataset(tmp_path, {"number": range(500, 520)}, {"number": "long"})
    first, second = make(numbers), make(other)
    assert [len(first), len(second)] == [4, 1]
    begun, between = iter(first), iter(second)
    found = [next(one).number.numpy().tolist() for one in (begun, between, begun)]
    assert found == [WHOLE[:30], list(range(500, 520)), WHOLE[30:60]]
    assert [rows(first), rows(second)] == [WHOLE, list(range(500, 520))]
    assert make(numbers, num_epochs=None).cardinality().numpy() == tf.data.INFINITE_CARDINALITY


@pytest.mark.parametrize("taken", [0, 1, 4])
def test_dataset_is_freed_after_its_last_reference(numbers: Dataset, taken: int) -> None:
    def read() -> ReaderOptions:
        return in_order(numbers)

    dataset = make_tf_dataset(read, batch_size=30)
    for _ in zip(range(taken), dataset, strict=False):
        pass
    ended = threading.Event()  # set by the thread in which TensorFlow ends the iterator
    weakref.finalize(read, ended.set)
    del dataset, read
    gc.collect()
    assert ended.wait(30)


def mapped(dataset: Any) -> Any:
    return dataset.map(lambda batch: batch)


def in_zip(dataset: Any) -> Any:
    return tf.data.Dataset.zip((dataset, tf.data.Dataset.range(100))).map(lambda batch, _: batch)


def nested(dataset: Any) -> Any:
    return tf.data.Dataset.range(1).flat_map(lambda _: dataset)


@pytest.mark.long
@pytest.mark.parametrize("made_of", [mapped, in_zip, nested, iter])
def test_derived_dataset_or_iterator_keeps_its_dataset_alive(
    numbers: Dataset, made_of: Callable[[Any], Any]
) -> None:
    made = made_of(make(numbers))
    gc.collect()
    tf_traced.traced_function.cache_clear()
    assert rows(made) == WHOLE


@pytest.mark.long
def test_distributed_dataset_keeps_its_dataset_alive(numbers: Dataset) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    distributed = strategy.experimental_distribute_dataset(make(numbers))
    gc.collect()
    assert rows(distributed) == WHOLE


@pytest.fixture
def run_eagerly() -> Iterator[None]:
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Even though the `tf.config")
def test_dataset_is_read_while_functions_run_eagerly(numbers: Dataset, run_eagerly: None) -> None:
    tf_traced.traced_function.cache_clear()
    dataset = make(numbers)
    gc.collect()
    assert rows(dataset) == WHOLE


def test_tracing_leaves_no_files(
    numbers: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tf_traced.traced_function.cache_clear()
    assert rows(make(numbers)) == WHOLE
    with tf.Graph().as_default():
        make(numbers, 7)
    assert list(tmp_path.iterdir()) == []
