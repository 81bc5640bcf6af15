"""A recorder's totals for waits, work and threads; the tests control the clock."""

import copy
import itertools
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.kit.clocks import Clock

from mdstorm_backend.base.recorder import (
    Cause,
    Recorder,
    count,
    current_recorder,
    of_this_task,
    work,
)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(clock: Clock) -> Recorder:
    """A recorder for a pass whose first batch has already been used by training."""
    recorder = Recorder(clock)
    recorder.record_received([1])
    clock.advance(5)
    recorder.record_request()
    return recorder


class Late(Future[Any]):
    """A result that becomes ready a few seconds after it is requested."""

    def __init__(self, made: Any, clock: Clock, seconds: float) -> None:
        super().__init__()
        self.set_result(made)
        self._clock, self._seconds = clock, seconds

    def result(self, timeout: float | None = None) -> Any:
        self._clock.advance(self._seconds)
        return super().result(timeout)


def busy(clock: Clock, **seconds: float) -> Any:
    """Return a function that spends the given number of seconds on each kind of work."""

    def function(item: Any) -> Any:
        for name, each in seconds.items():
            with work(Cause[name]):
                clock.advance(each)
        return item

    return function


def test_waiting_time_is_split_by_kind_of_work(clock: Clock, recorder: Recorder) -> None:
    shard = Late(recorder.task(busy(clock, DOWNLOADS=9))("shard"), clock, 3)

    def fill(_: str) -> str:
        with work(Cause.DECODING):
            recorder.result(shard)
            clock.advance(1)
        return "block"

    made = recorder.task(fill)("block")
    assert recorder.result(Late(made, clock, 8)) == "block"
    recorder.record_received([1])
    totals = recorder.totals()
    assert totals["waited_seconds"] == 9 + 3 + 1 + 8  # simulated threads share the clock
    assert totals["waited_for_downloads"] == pytest.approx(6)
    assert totals["waited_for_decoding"] == pytest.approx(2)
    assert totals["training_seconds"] == 5


def test_recorded_work_ends_when_an_error_is_raised(clock: Clock, recorder: Recorder) -> None:
    def fail(_: object) -> None:
        with work(Cause.TRANSFORMS):
            clock.advance(3)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        recorder.called(fail)(None)
    assert current_recorder() is None
    assert recorder.spans[Cause.TRANSFORMS] == 3


def test_waits_longer_than_the_consumers_own_are_scaled_to_it(
    clock: Clock, recorder: Recorder
) -> None:
    recorder.wait(30, [3.0, 1.0, 0.0, 0.0])  # TensorFlow's pipeline reads ahead
    clock.advance(10)
    recorder.record_received([1])
    totals = recorder.totals()
    assert (totals["waited_seconds"], totals["waited_for_downloads"]) == (10, 7.5)
    assert totals["waited_for_decoding"] == 2.5


def test_wait_for_a_task_is_also_divided_by_its_other_work(
    clock: Clock, recorder: Recorder
) -> None:
    def read(_: object) -> None:
        busy(clock, DOWNLOADS=1)(None)
        clock.advance(3)  # no work that has a cause of its own

    recorder.result(Late(recorder.task(read)(None), clock, 8))
    assert recorder.spans == [2, 0, 0, 6]


def test_work_called_within_a_task_counts_for_the_task(clock: Clock, recorder: Recorder) -> None:
    made = recorder.task(recorder.called(busy(clock, DECODING=3), Cause.TRANSFORMS))(1)
    assert made == (1, [0, 3, 0, 0])
    assert recorder.spans == [0, 0, 0, 0]


def test_time_before_an_iteration_begins_does_not_count(clock: Clock, recorder: Recorder) -> None:
    recorder.record_received([3])
    clock.advance(100)  # the consumer does something else
    recorder.begin()
    clock.advance(2)
    recorder.record_received([4, 4])
    totals, before = recorder.totals(), recorder.before
    assert (totals["waited_seconds"], totals["training_seconds"]) == (2, 5)
    assert (totals["rows"], totals["batches"], before["rows"]) == (12, 4, 4)


def test_copies_of_a_recorder_start_empty(recorder: Recorder) -> None:
    for other in (copy.deepcopy(recorder), pickle.loads(pickle.dumps(recorder))):  # noqa: S301
        assert (other.batches, other.trained) == (0, 0)


def test_counts_of_several_threads_are_summed(recorder: Recorder) -> None:
    meet = threading.Barrier(3)

    def skip(_: object) -> None:
        for _ in range(1000):
            count("skipped", 1)
        meet.wait(30)  # so that each thread has its own number

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(recorder.task(skip), range(3)))
    assert recorder.counts()["skipped"] == 3000


def test_task_continued_in_another_thread_is_recorded(clock: Clock, recorder: Recorder) -> None:
    def begin(_: object) -> Any:
        return of_this_task(lambda: count("downloaded_bytes", 4))

    resume, _ = recorder.task(begin)(None)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(resume).result()
    assert recorder.totals()["downloaded_bytes"] == 4


def counted_with_another_thread_at(call: int, step: Callable[[Recorder], None]) -> dict[str, float]:
    """Return what is counted if another thread also takes a step at the n-th call within it."""
    recorder, calls = Recorder(), itertools.count(1)

    def other(frame: object, event: str, function: object) -> None:
        if next(calls) == call:
            sys.setprofile(None)
            thread = threading.Thread(target=step, args=(recorder,))
            thread.start()
            thread.join()

    sys.setprofile(other)
    try:
        step(recorder)
    finally:
        sys.setprofile(None)
    return {name: recorder.totals()[name] for name in ("batches", "rows", "skipped")}


@pytest.mark.parametrize(
    ("step", "sums"),
    [
        (lambda recorder: recorder.record_sizes([2, 3]), {"batches": 4, "rows": 10, "skipped": 0}),
        (lambda recorder: recorder.record_received([2]), {"batches": 2, "rows": 4, "skipped": 0}),
        (lambda recorder: recorder.count("skipped", 3), {"batches": 0, "rows": 0, "skipped": 6}),
    ],
    ids=["sizes", "received", "count"],
)
def test_nothing_is_lost_at_whichever_call_another_thread_takes_its_turn(
    step: Callable[[Recorder], None], sums: dict[str, float]
) -> None:
    for call in range(1, 8):  # each step has at least as many, and as many returns
        assert counted_with_another_thread_at(call, step) == sums
