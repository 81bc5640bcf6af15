"""Waiting times reported by TensorFlow datasets."""

import threading
from typing import Any

import pytest
import tensorflow as tf
from tests.kit.clocks import Clock

from mdstorm_backend import Dataset, ExactOrder
from mdstorm_backend.loaders import Loader, ReaderOptions, Recorder
from mdstorm_backend.loaders.tf import make_tf_dataset, tf_runs
from mdstorm_backend.read.gather_rows import Gatherer

ROWS, SHARDS, BATCH = 50, 5, 4
BATCHES = 13


def make(dataset: Dataset) -> Any:
    return make_tf_dataset(lambda: ReaderOptions(dataset, ExactOrder(seed=3)), batch_size=BATCH)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all recorders."""
    found = Clock()
    monkeypatch.setattr(tf_runs, "Loader", lambda *given: Loader(*given, recorder=Recorder(found)))
    return found


def test_python_loop_statistics_count_batches_and_waiting(numbers: Dataset) -> None:
    dataset = make(numbers)
    assert dataset.statistics().batches == 0
    for passes in (1, 2):
        assert len(list(dataset)) == BATCHES
        found = dataset.statistics()
        assert (found.batches, found.rows) == (passes * BATCHES, passes * ROWS)
        assert found.waited_seconds > 0
        assert found.training_seconds > 0
    assert dataset.statistics(last_pass=True).batches == BATCHES


def test_all_loop_time_is_accounted_for(
    numbers: Dataset, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = make(numbers)
    transform = Gatherer.__call__

    def slow(self: Any, *arguments: Any) -> Any:
        clock.advance(3)
        return transform(self, *arguments)

    monkeypatch.setattr(Gatherer, "__call__", slow)
    iterator = iter(dataset)
    clock.advance(100)  # before the loop requests a batch
    for _ in iterator:
        clock.advance(2)
    found = dataset.statistics()
    assert found.training_seconds == 2 * BATCHES
    assert found.waited_seconds == clock.now - 100 - 2 * BATCHES
    assert found.waited_for_decoding == found.waited_seconds > 0


def test_statistics_of_reduce_name_the_pipeline_as_consumer(numbers: Dataset) -> None:
    dataset = make(numbers)
    zero = tf.constant(0, tf.int64)
    total = dataset.reduce(zero, lambda total, batch: total + tf.reduce_sum(batch.number))
    assert int(total) == sum(range(ROWS))
    found = dataset.statistics()
    assert (found.batches, found.rows) == (BATCHES, ROWS)
    assert found.waited_seconds > 0


def test_all_pipeline_time_is_accounted_for(numbers: Dataset, clock: Clock) -> None:
    dataset = make(numbers)

    @tf.function
    def step(iterator: Any) -> Any:
        batch = next(iterator)
        return tf.py_function(lambda _: clock.advance(2) or 0, [batch.number], tf.int64)

    iterator = iter(dataset)
    for _ in range(BATCHES):  # as in Keras, which does not request the end
        step(iterator)
    del iterator
    found = dataset.statistics()
    assert found.rows == ROWS
    assert found.seconds == clock.now == 2 * BATCHES


def test_iterator_is_released_in_another_thread() -> None:
    threads = []

    class Slow:
        def __del__(self) -> None:
            threads.append(threading.current_thread())

    run = tf_runs.TFRun(Recorder())
    run.is_idle.clear()  # so that `release` waits for the thread
    run.release([Slow()])
    assert threads
    assert threads != [threading.current_thread()]
