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
        self._key: object = None
        self._result: Future[Ids] = Future()
        self._process = 0

    def __reduce__(self) -> tuple[type[WorkAhead], tuple[()]]:
        return WorkAhead, ()

    def begin(self, key: object, make: Callable[[], Ids]) -> None:
        """Have a thread call `make`, unless that was done."""
        if self._is_of(key):
            return
        self._key, self._process, self._result = key, os.getpid(), Future()
        threading.Thread(target=_fill, args=(self._result, make), daemon=True).start()

    def take(self, key: object, make: Callable[[], Ids]) -> Ids:
        """Return the result if it was begun, else what `make` returns; it is kept no longer."""
        if not self._is_of(key):
            return make()
        self._key, result = None, self._result
        self._result = Future()
        return result.result()

    def _is_of(self, key: object) -> bool:
        return self._key == key and self._process == os.getpid()


def _fill(result: Future[Any], make: Callable[[], Any]) -> None:
    try:
        result.set_result(make())
    except Exception as error:
        result.set_exception(error)
