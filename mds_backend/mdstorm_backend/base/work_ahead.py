"""Keep a result that takes long, and have a thread make the next one before it is asked for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")


class WorkAhead(Generic[_Result]):
    """The result that was asked for last, and one that a thread makes. Pickles have neither.

    A fork has those that were finished.
    """

    def __init__(self) -> None:
        #: Replaced at once, for other threads: of which key, in which process, the result.
        self._kept: tuple[object, int, Future[_Result]] | None = None
        self._ahead: tuple[object, int, Future[_Result]] | None = None

    def __reduce__(self) -> tuple[type[WorkAhead[Any]], tuple[()]]:
        return WorkAhead, ()

    def begin(self, key: object, make: Callable[[], _Result]) -> None:
        """Have a thread call `make`, unless that was done."""
        if self._find(key) is None:
            result: Future[_Result] = Future()
            self._ahead = key, os.getpid(), result
            threading.Thread(target=_fill, args=(result, make), daemon=True).start()

    def get(self, key: object, make: Callable[[], _Result]) -> _Result:
        """Return the result of a key, by `make` if there is none; it is kept until the next."""
        found, ahead = self._find(key), self._ahead
        if ahead is not None and ahead[2] is found:
            self._ahead = None
        if found is None:
            found = Future()
            found.set_result(make())
        result = found.result()
        self._kept = key, os.getpid(), found
        return result

    def _find(self, key: object) -> Future[_Result] | None:
        for one in (self._kept, self._ahead):
            if one is not None and one[0] == key and (one[1] == os.getpid() or one[2].done()):
                return one[2]
        return None


def _fill(result: Future[Any], make: Callable[[], Any]) -> None:
    try:
        result.set_result(make())
    except Exception as error:
        result.set_exception(error)
