"""A pool of threads that know in which order their work was submitted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any, TypeVar

from mdstorm_backend.base.recorded_work import CAUSES, Task, here

_Out = TypeVar("_Out")

_places = count()
_here = threading.local()


class OrderedPool(ThreadPoolExecutor):
    """A pool whose threads can ask for the `place` of what they do, and have others `go_on`."""

    def __init__(self, max_workers: int, thread_name_prefix: str = "") -> None:
        super().__init__(max_workers, thread_name_prefix)
        self._others = ThreadPoolExecutor(max_workers, thread_name_prefix)

    def submit(self, fn: Callable[..., _Out], /, *args: Any, **kwargs: Any) -> Future[_Out]:
        """Have a thread call `fn`."""
        return super().submit(_called, self._others, next(_places), fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads, and those that go on with their work."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        self._others.shutdown(wait)


def place() -> int:
    """Return a number that is less than that of all work submitted after this thread's."""
    found: int = getattr(_here, "place", -1)
    return next(_places) if found < 0 else found


def go_on(function: Callable[[], object]) -> bool:
    """Have another thread call `function`, as part of the work of this one.

    Returns
    -------
    bool
        False if this is no thread of an `OrderedPool`, with which the other one would end; then
        nothing is called.
    """
    others: ThreadPoolExecutor | None = getattr(_here, "others", None)
    if others is None:
        return False
    task = here.task and Task(here.task.recorder, [0.0] * CAUSES)

    def called() -> None:
        here.task = task
        function()

    others.submit(_called, others, place(), called)
    return True


def _called(
    others: ThreadPoolExecutor, number: int, fn: Callable[..., _Out], *args: Any, **kwargs: Any
) -> _Out:
    _here.others, _here.place = others, number
    return fn(*args, **kwargs)
