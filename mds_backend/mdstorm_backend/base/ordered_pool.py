"""A pool of threads that know in which order their work was submitted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any, TypeVar

_Out = TypeVar("_Out")

_places = count()
_here = threading.local()


class OrderedPool(ThreadPoolExecutor):
    """A pool whose threads can ask for the `place` of what they do."""

    def submit(self, fn: Callable[..., _Out], /, *args: Any, **kwargs: Any) -> Future[_Out]:
        """Have a thread call `fn`."""
        return super().submit(_called, next(_places), fn, *args, **kwargs)


def place() -> int:
    """Return a number that is less than that of all work submitted after this thread's."""
    found: int = getattr(_here, "place", -1)
    return next(_places) if found < 0 else found


def _called(number: int, fn: Callable[..., _Out], *args: Any, **kwargs: Any) -> _Out:
    _here.place = number
    return fn(*args, **kwargs)
