"""`EpochCache`: what was computed for the latest epoch, and for the next one ahead of use."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from mdstorm_backend.base.pools import in_own_thread

_Made = TypeVar("_Made")


class EpochCache(Generic[_Made]):
    """Keeps the latest result, and a result that a thread computes in advance.

    The thread does not end with a pass, because the next pass uses the result. Results are not
    pickled. A forked child keeps the ones that were finished.
    """

    def __init__(self) -> None:
        #: Key, process and result, in one tuple so that other threads never see a mix of old and
        #: new.
        self._kept: tuple[object, int, Future[_Made]] | None = None
        self._ahead: tuple[object, int, Future[_Made]] | None = None

    def __reduce__(self) -> tuple[type[EpochCache[Any]], tuple[()]]:
        return EpochCache, ()

    def begin(self, key: object, make: Callable[[], _Made]) -> None:
        """Start computing the result for `key` in a thread with `make`, unless already started."""
        if self._find(key) is None:
            self._ahead = key, os.getpid(), in_own_thread(make, "mdstorm-epoch")

    def get(self, key: object, make: Callable[[], _Made]) -> _Made:
        """Return the result for `key`, made by `make` if needed; keep it until the next call."""
        future, ahead = self._find(key), self._ahead
        if ahead is not None and ahead[2] is future:
            self._ahead = None
        if future is None:
            future = Future()
            future.set_result(make())
        result = future.result()
        self._kept = key, os.getpid(), future
        return result

    def _find(self, key: object) -> Future[_Made] | None:
        for one in (self._kept, self._ahead):
            if one is not None and one[0] == key and (one[1] == os.getpid() or one[2].done()):
                return one[2]
        return None
