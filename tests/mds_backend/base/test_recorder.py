"""What a recorder makes of waits, work and threads; time is the tests' own."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from tests.mds_backend.clocks import Clock

from mdstorm_backend.base.recorded_work import Cause, work
from mdstorm_backend.base.recorder import Recorder, Results, current_recorder


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorder(clock: Clock) -> Recorder:
    """A recorder of a pass whose first batch is there."""
    recorder = Recorder(clock)
    recorder.deliver(1)
    recorder.ask()
    return recorder


class Late(Future[Any]):
    """A result for which somebody has to wait."""

    def __init__(self, made: Any, clock: Clock, seconds: float) -> None:
        super().__init__()
        self.set_result(made)
        self._clock, self._seconds = clock, seconds

    def result(self, timeout: float | None = None) -> Any:
        self._clock.advance(self._seconds)
        return super().result(timeout)


def busy(clock: Clock, **seconds: float) -> Any:
    """Return a function that is busy with something for some seconds."""

    def function(item: Any) -> Any:
        for name, each in seconds.items():
            with work(Cause[name]):
                clock.advance(each)
        return item

    return function


def test_a_wait_is_divided_as_the_making_of_the_result_was(
    clock: Clock, recorder: Recorder
) -> None:
    made = recorder.task(busy(clock, DOWNLOADS=6, DECODING=2))("block")
    assert recorder.result(Late(made, clock, 4)) == "block"
    recorder.deliver(1)
    totals = recorder.totals()
    assert totals["waited_seconds"] == 8 + 4  # the fake thread shares the clock
    assert totals["waited_for_downloads"] == pytest.approx(3)
    assert totals["waited_for_decoding"] == pytest.approx(1)
    assert (totals["download_seconds"], totals["decode_seconds"]) == (6, 2)


def test_what_a_task_waits_for_itself_is_handed_on(clock: Clock, recorder: Recorder) -> None:
    shard = Late(recorder.task(busy(clock, DOWNLOADS=9))("shard"), clock, 3)

    def fill(_: str) -> str:
        with work(Cause.DECODING):
            recorder.result(shard)
            clock.advance(1)
        return "block"

    made = recorder.task(fill)("block")
    recorder.result(Late(made, clock, 8))
    recorder.deliver(1)
    totals = recorder.totals()
    assert totals["waited_for_downloads"] == pytest.approx(6)
    assert totals["waited_for_decoding"] == pytest.approx(2)
    assert totals["decode_seconds"] == 1  # waiting is not work


def test_downloads_at_the_same_time_keep_the_link_busy_once(
    clock: Clock, recorder: Recorder
) -> None:
    first, second = threading.Event(), threading.Event()

    def download(event: threading.Event) -> None:
        with work(Cause.DOWNLOADS):
            (first if event is second else second).set()
            assert event.wait(30)
            clock.advance(5)
            (first if event is second else second).set()

    with ThreadPoolExecutor(2) as pool:
        task = recorder.task(download)
        both = [pool.submit(task, event) for event in (first, second)]
        for future in both:
            future.result()
    totals = recorder.totals()
    assert totals["downloading_seconds"] == 10
    assert totals["download_seconds"] > 10


def test_an_error_ends_the_work_that_is_recorded(clock: Clock, recorder: Recorder) -> None:
    def fail(_: object) -> None:
        with work(Cause.TRANSFORMS):
            clock.advance(3)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        recorder.called(fail)(None)
    assert current_recorder() is None
    assert recorder.totals()["transform_seconds"] == 3


def test_the_depth_of_the_queue_counts_results_that_are_ready(recorder: Recorder) -> None:
    results = Results(recorder)
    task: Any = results.task(int)
    futures: list[Future[Any]] = []
    for item in range(3):
        futures.append(Future())
        futures[-1].set_result(task(item))
    assert [results.take(future) for future in futures] == [0, 1, 2]
    totals = recorder.totals()
    assert (totals["results"], totals["results_ready"]) == (3, 3 + 2 + 1)
