"""Pools of threads: for work in the order it was submitted, for shards, and for work ahead."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any, Generic, TypeAlias, TypeVar

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


#: Called with the number that is done, and the number of all.
OnProgress: TypeAlias = Callable[[int, int], None]
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

#: Limits the shards held in memory, and the concurrent requests to a storage.
_MAX_THREADS = 8


#: Requests to a storage that only look at files, or write small ones, at a time.
_MOST_REQUESTS = 16


def num_threads(threads: int | None) -> int:
    """Return the requested number of threads; by default one per CPU core, at most 8."""
    return threads or min(_MAX_THREADS, os.cpu_count() or 1)


def map_files(call: Callable[[_Item], _Result], items: Collection[_Item]) -> list[_Result]:
    """Call `call` in threads for each of some small files, and return the results in their order.

    The first error is raised once all calls have ended.
    """
    with ThreadPoolExecutor(min(_MOST_REQUESTS, len(items)) or 1) as pool:
        return list(pool.map(call, items))


def each(
    call: Callable[[_Item], _Result],
    items: Sequence[_Item],
    threads: int | None,
    on_progress: OnProgress | None,
) -> Iterator[_Result]:
    """Call `call` for each item in threads, and yield the results in the order of the items.

    The first error is raised once the calls in progress have ended.
    """
    with ThreadPoolExecutor(num_threads(threads)) as pool:
        try:
            for done, result in enumerate(pool.map(call, items), 1):
                yield result
                if on_progress is not None:
                    on_progress(done, len(items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


_Made = TypeVar("_Made")


class WorkAhead(Generic[_Made]):
    """The result that was asked for last, and one that a thread makes. Pickles have neither.

    A fork has those that were finished.
    """

    def __init__(self) -> None:
        #: Replaced at once, for other threads: of which key, in which process, the result.
        self._kept: tuple[object, int, Future[_Made]] | None = None
        self._ahead: tuple[object, int, Future[_Made]] | None = None

    def __reduce__(self) -> tuple[type[WorkAhead[Any]], tuple[()]]:
        return WorkAhead, ()

    def begin(self, key: object, make: Callable[[], _Made]) -> None:
        """Have a thread call `make`, unless that was done."""
        if self._find(key) is None:
            result: Future[_Made] = Future()
            self._ahead = key, os.getpid(), result
            threading.Thread(target=_fill, args=(result, make), daemon=True).start()

    def get(self, key: object, make: Callable[[], _Made]) -> _Made:
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

    def _find(self, key: object) -> Future[_Made] | None:
        for one in (self._kept, self._ahead):
            if one is not None and one[0] == key and (one[1] == os.getpid() or one[2].done()):
                return one[2]
        return None


def _fill(result: Future[Any], make: Callable[[], Any]) -> None:
    try:
        result.set_result(make())
    except Exception as error:
        result.set_exception(error)
