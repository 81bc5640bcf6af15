"""Batches on their way out of a worker process, with what it has recorded of making them."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from typing import Any, TypeAlias

from mdstorm_backend.base.recorder import Recorder, shares_of
from mdstorm_backend.loaders.runner import Delivered

#: A batch, its mark, its size, and what was recorded since the one before, by name.
Sent: TypeAlias = tuple[Any, Any, int, dict[str, float]]


def sent(delivered: Delivered, recorder: Recorder) -> Generator[Sent, None, None]:
    """Add to each batch what the worker process has recorded while it made it."""
    before = recorder.totals()
    recorder.deliver(0, 1)  # so that the first batch counts as the others do
    with closing(delivered):
        recorder.ask()
        for batch, mark, size in delivered:
            recorder.deliver(size)
            now = recorder.totals()
            yield batch, mark, size, {n: v - before[n] for n, v in now.items() if v != before[n]}
            before = now
            recorder.ask()


def received(batches: Iterable[Sent], recorder: Recorder | None) -> Delivered:
    """Hand on what worker processes make, and record it.

    If a batch has to be waited for, the wait is divided as the making of that batch was.
    """
    iterator = iter(batches)
    while True:
        start = 0.0 if recorder is None else recorder.clock()
        try:
            batch, mark, size, recorded = next(iterator)
        except StopIteration:
            return
        if recorder is not None:
            recorder.wait(recorder.clock() - start, shares_of(recorded))
            recorder.add(recorded)
        yield batch, mark, size
