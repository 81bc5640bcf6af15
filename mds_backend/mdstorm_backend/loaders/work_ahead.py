"""Lay out the samples of the next epoch while the one before is read.

For many samples that takes seconds, which training would wait for between two epochs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]


class WorkAhead:
    """One result that a thread makes before it is asked for. Copies and forks have none."""

    def __init__(self) -> None:
        #: Of which key, in which process, and the result: replaced together, for other threads.
        self._begun: tuple[object, int, Future[Ids]] | None = None

    def __reduce__(self) -> tuple[type[WorkAhead], tuple[()]]:
        return WorkAhead, ()

    def begin(self, key: object, make: Callable[[], Ids]) -> None:
        """Have a thread call `make`, unless that was done."""
        if self._result_of(key) is None:
            result: Future[Ids] = Future()
            self._begun = key, os.getpid(), result
            threading.Thread(target=_fill, args=(result, make), daemon=True).start()

    def take(self, key: object, make: Callable[[], Ids]) -> Ids:
        """Return the result if it was begun, else what `make` returns; it is kept no longer."""
        result = self._result_of(key)
        if result is None:
            return make()
        self._begun = None
        return result.result()

    def _result_of(self, key: object) -> Future[Ids] | None:
        begun = self._begun
        return begun[2] if begun is not None and begun[:2] == (key, os.getpid()) else None


def _fill(result: Future[Any], make: Callable[[], Any]) -> None:
    try:
        result.set_result(make())
    except Exception as error:
        result.set_exception(error)
