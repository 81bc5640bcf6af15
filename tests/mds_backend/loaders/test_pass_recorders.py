"""The sum over the passes of a loader."""

import pytest

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.loaders import PassRecorders, Statistics, loader_statistics


def test_the_sum_is_whole_while_another_pass_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    recorders = PassRecorders()
    for rows in (3, 4):
        recorder = recorders.begin()
        recorder.deliver(rows)
        recorder.end(is_waiting=True)
    seen: list[int] = []
    summed = loader_statistics._statistics

    def asked_meanwhile(recorder: Recorder) -> Statistics:
        with monkeypatch.context() as patch:  # as a thread would that exports metrics
            patch.setattr(loader_statistics, "_statistics", summed)
            seen.append(recorders.statistics().rows)
        return summed(recorder)

    monkeypatch.setattr(loader_statistics, "_statistics", asked_meanwhile)
    recorders.begin()
    assert seen == [7]
    monkeypatch.undo()
    assert recorders.statistics().rows == 7
    assert recorders.statistics().passes == 3


def test_a_pass_that_goes_on_counts_until_it_is_over() -> None:
    recorders = PassRecorders()
    first, second = recorders.begin(), recorders.begin()
    second.deliver(1)
    second.end(is_waiting=False)
    third = recorders.begin()
    first.deliver(10)
    third.deliver(100)
    assert recorders.statistics().rows == 111
    assert recorders.statistics(last_pass=True).rows == 100
