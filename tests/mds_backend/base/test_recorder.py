"""A recorder's totals for waits, work and threads; the tests control the clock."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.mds_backend.clocks import Clock

from mdstorm_backend.base.recorder import Cause, Recorder, current_recorder, of_this_task, work
from mdstorm_backend.base.threads import WorkAhead


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(clock: Clock) -> Recorder:
    """A recorder for a pass whose first batch has already been used by training."""
    recorder = Recorder(clock)
    recorder.record_batches(1)
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
    recorder.record_batches(1)
    totals = recorder.totals()
    assert totals["waited_seconds"] == 9 + 3 + 1 + 8  # simulated threads share the clock
    assert totals["waited_for_downloads"] == pytest.approx(6)
    assert totals["waited_for_decoding"] == pytest.approx(2)
    assert (totals["download_seconds"], totals["decode_seconds"]) == (9, 1)  # waiting is not work


def test_link_busy_time_counts_parallel_downloads_once(clock: Clock, recorder: Recorder) -> None:
    first, second = threading.Event(), threading.Event()

    def download(event: threading.Event) -> None:
        with work(Cause.DOWNLOADS):
            (first if event is second else second).set()
            assert event.wait(30)
            clock.advance(5)
            (first if event is second else second).set()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(recorder.task(download), (first, second)))
    totals = recorder.totals()
    assert totals["downloading_seconds"] == 10
    assert totals["download_seconds"] > 10


def test_recorded_work_ends_when_an_error_is_raised(clock: Clock, recorder: Recorder) -> None:
    def fail(_: object) -> None:
        with work(Cause.TRANSFORMS):
            clock.advance(3)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        recorder.called(fail)(None)
    assert current_recorder() is None
    assert recorder.totals()["transform_seconds"] == 3


def test_queue_depth_counts_ready_results(recorder: Recorder) -> None:
    last = threading.Event()

    def make(item: int) -> int:
        if item == 3:
            last.set()
        return item

    def items() -> Iterator[int]:
        yield from range(4)
        assert last.wait(30)  # items 0 to 2 are ready, and item 3 is almost ready

    with WorkAhead(1, recorder) as ahead:
        results = ahead.map(make, items(), 5)
        assert list(results) == [0, 1, 2, 3]
    totals = recorder.totals()
    assert totals["results"] == 4
    assert 0 < totals["results_ready"] <= 4 + 3 + 2 + 1


def test_startup_seconds_exclude_time_spent_by_the_consumer(clock: Clock) -> None:
    recorder = Recorder(clock)
    clock.advance(3)
    recorder.begun()
    clock.advance(100)  # the consumer does something else
    recorder.record_request()
    clock.advance(2)
    recorder.record_batches(1)
    assert recorder.totals()["startup_seconds"] == 5


def test_task_continued_in_another_thread_is_recorded(clock: Clock, recorder: Recorder) -> None:
    def begin(_: object) -> Any:
        return of_this_task(lambda: busy(clock, DOWNLOADS=4)(None))

    resume, _ = recorder.task(begin)(None)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(resume).result()
    assert recorder.totals()["download_seconds"] == 4
