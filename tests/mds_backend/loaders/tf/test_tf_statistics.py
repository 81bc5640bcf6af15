"""Waiting times reported by TensorFlow datasets."""

import threading
from functools import partial
from typing import Any

import pytest
import tensorflow as tf
from tests.mds_backend.clocks import Clock

from mdstorm_backend import Dataset, ExactOrder
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.loaders import ReaderOptions, Statistics
from mdstorm_backend.loaders.loader_statistics import LOOP, PIPELINE
from mdstorm_backend.loaders.tf import make_tf_dataset, tf_runs
from mdstorm_backend.loaders.tf.tf_runs import PipelineRecorder

ROWS, SHARDS, BATCH = 50, 5, 4
BATCHES = 13


def make(dataset: Dataset) -> Any:
    return make_tf_dataset(lambda: ReaderOptions(dataset, ExactOrder(seed=3)), batch_size=BATCH)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock used by the recorders of new iterations."""
    clock = Clock()
    monkeypatch.setattr(tf_runs, "Recorder", partial(Recorder, clock))
    return clock


def test_python_loop_statistics_count_batches_and_waiting(numbers: Dataset) -> None:
    dataset = make(numbers)
    assert dataset.statistics().batches == 0
    for passes in (1, 2):
        assert len(list(dataset)) == BATCHES
        found = dataset.statistics()
        assert (found.consumer, found.passes) == (LOOP, passes)
        assert (found.batches, found.rows) == (passes * BATCHES, passes * ROWS)
        assert found.startup_seconds > 0
        assert found.training_seconds > 0
    assert dataset.statistics(last_pass=True).batches == BATCHES


def test_all_loop_time_is_accounted_for(
    numbers: Dataset, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = make(numbers)
    begin = tf.data.Dataset.__iter__

    def slow(self: Any) -> Any:
        clock.advance(3)
        return begin(self)

    monkeypatch.setattr(tf.data.Dataset, "__iter__", slow)
    iterator = iter(dataset)
    clock.advance(100)  # before the loop requests a batch
    for _ in iterator:
        clock.advance(2)
    found = dataset.statistics()
    assert (found.startup_seconds, found.waited_seconds) == (3, 0)
    assert found.training_seconds == 2 * BATCHES


def test_statistics_of_reduce_name_the_pipeline_as_consumer(numbers: Dataset) -> None:
    dataset = make(numbers)
    zero = tf.constant(0, tf.int64)
    total = dataset.reduce(zero, lambda total, batch: total + tf.reduce_sum(batch.number))
    assert int(total) == sum(range(ROWS))
    found = dataset.statistics()
    assert (found.consumer, found.batches, found.rows) == (PIPELINE, BATCHES, ROWS)
    assert found.order == "exact"


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
    assert (found.consumer, found.rows) == (PIPELINE, ROWS)
    assert found.seconds == clock.now == 2 * BATCHES


def test_iterator_is_released_in_another_thread() -> None:
    threads = []

    class Slow:
        def __del__(self) -> None:
            threads.append(threading.current_thread())

    run = tf_runs.TFRun()
    run.is_idle.clear()  # so that `release` waits for the thread
    run.release([Slow()])
    assert threads
    assert threads != [threading.current_thread()]


def test_loop_waiting_time_is_split_like_pipeline_waiting_time() -> None:
    clock = Clock()
    loop = Recorder(clock)
    pipeline = PipelineRecorder(loop)
    pipeline.record_batches(1)
    pipeline.record_request()
    pipeline.wait(30, [3.0, 0.0, 1.0, 0.0, 0.0])
    clock.advance(30)
    pipeline.record_batches(1)
    assert pipeline.totals()["waited_for_downloads"] == 22.5
    assert pipeline.consumer == PIPELINE
    loop.record_batches(0)
    loop.record_request()
    clock.advance(10)
    loop.record_batches(0)
    assert pipeline.consumer == LOOP
    totals = pipeline.totals()
    assert (totals["batches"], totals["rows"], totals["waited_seconds"]) == (2, 2, 10)
    assert totals["waited_for_downloads"] == 7.5
    assert totals["waited_for_decoding"] == 2.5
    assert totals["waited_for_batching"] == 0


def test_loop_waiting_time_counts_as_batching_if_the_pipeline_did_not_wait() -> None:
    clock = Clock()
    loop = Recorder(clock)
    pipeline = PipelineRecorder(loop)
    pipeline.record_batches(2, 2)  # the pipeline produces the whole pass at once
    loop.record_batches(0)
    loop.record_request()
    clock.advance(10)
    loop.record_batches(0)
    found = Statistics(**pipeline.totals())  # type: ignore[arg-type]
    assert (found.waited_seconds, found.waited_for_batching) == (10, 10)
    assert found.verdict.cause == "batching"
