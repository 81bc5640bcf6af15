"""Calls for many items in threads."""

import threading

import pytest

from mdstorm_backend.base.pools import Threads, each

SECONDS = 30


def test_each_yields_results_in_item_order_and_counts_calls() -> None:
    second_ended, seen = threading.Event(), []

    def call(item: int) -> int:
        assert item or second_ended.wait(SECONDS)
        second_ended.set()
        return -item

    progress = lambda *at: seen.append(at)  # noqa: E731
    assert list(each(call, range(4), 2, progress)) == [0, -1, -2, -3]
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert list(each(call, [], 2)) == []


def test_first_error_in_each_stops_other_calls_and_is_raised_when_they_have_ended() -> None:
    began, stopped = threading.Event(), threading.Event()
    ended: list[int] = []

    def call(item: int) -> None:
        if item == 1:
            assert began.wait(SECONDS)
            raise ZeroDivisionError
        began.set()
        assert stopped.wait(SECONDS)
        ended.append(item)

    with pytest.raises(ZeroDivisionError):
        list(each(call, range(9), 2, stop=lambda _: stopped.set()))
    assert ended == [0]


def test_each_interrupted_as_its_thread_starts_waits_for_that_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began, stopped = threading.Event(), threading.Event()
    ended: list[int] = []

    def call(item: int) -> None:
        began.set()
        assert stopped.wait(SECONDS)
        ended.append(item)

    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            assert began.wait(SECONDS)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading, "Thread", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(each(call, range(9), 2, stop=lambda _: stopped.set()))
    assert ended == [0]


def test_threads_that_were_shut_down_accept_no_call() -> None:
    with Threads(1) as pool:
        assert pool.submit(int, "5").result() == 5
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(int, "5")
