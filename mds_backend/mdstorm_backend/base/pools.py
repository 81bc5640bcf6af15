"""Call functions for many items in threads, and wait for their results."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")

#: Called with the number of finished items, and the total.
OnProgress: TypeAlias = Callable[[int, int], None]

#: Upper limit of the default number of threads, which bounds the number of shards in memory and of
#: concurrent requests to storage.
_MAX_THREADS = 8
#: Maximum number of concurrent requests that only check files or write small ones.
_MOST_REQUESTS = 16


def num_threads(threads: int | None) -> int:
    """Return the requested number of threads; by default one per CPU core, at most 8."""
    return threads or min(_MAX_THREADS, os.cpu_count() or 1)


class Threads(ThreadPoolExecutor):
    """Threads for calls. Once Python ends and begins no more of them, the caller makes its calls.

    Python ends executors when the main program ends, before it waits for the program's threads.
    """

    _is_shut_down = False

    def submit(self, function: Callable[..., _Out], /, *args: Any, **keywords: Any) -> Future[_Out]:
        """Begin a call, or make it here if Python ends."""
        try:
            return super().submit(function, *args, **keywords)
        except RuntimeError as error:
            if self._is_shut_down or not str(error).startswith("cannot schedule new futures"):
                raise
        result: Future[_Out] = Future()
        settle(result, partial(function, *args, **keywords))
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls."""
        self._is_shut_down = True
        super().shutdown(wait, cancel_futures=cancel_futures)


def map_files(
    call: Callable[[_In], _Out], items: Collection[_In], *, threads: int = _MOST_REQUESTS
) -> list[_Out]:
    """Call `call` for each of several small files, in threads; return the results in order.

    The first error is raised once all calls have ended.
    """
    with Threads(min(threads, len(items)) or 1) as pool:
        return list(pool.map(call, items))


def each(
    call: Callable[[_In], _Out],
    items: Sequence[_In],
    threads: int | None,
    on_progress: OnProgress | None = None,
    *,
    stop: Callable[[BaseException], object] = lambda error: None,
) -> Iterator[_Out]:
    """Call `call` for each item in threads, and yield the results in item order.

    The first error of any call is raised once the calls in progress have ended, unless the wait for
    them is interrupted. No further calls begin.

    Parameters
    ----------
    call : callable
        Called with an item.
    items : sequence
        The items.
    threads : int or None
        Maximum number of calls at a time; see `num_threads`.
    on_progress : callable, optional
        Called with the number of calls that have ended, and the total.
    stop : callable, optional
        Called with the first error before the wait; it can make the other calls end sooner.
    """
    waiting = deque(enumerate(items))
    # Unlike `concurrent.futures.wait`, a queue holds no lock when the wait is interrupted.
    ended: SimpleQueue[tuple[int, Future[_Out]]] = SimpleQueue()

    def take_all() -> None:
        with suppress(IndexError):
            while True:
                number, item = waiting.popleft()
                result: Future[_Out] = Future()
                settle(result, partial(call, item))
                if result.exception() is not None:
                    waiting.clear()
                ended.put((number, result))

    # Each thread adds itself: its caller can be interrupted between its start and the next line.
    working: list[Future[None]] = []

    def work() -> None:
        ended_work: Future[None] = Future()
        working.append(ended_work)
        settle(ended_work, take_all)

    results: dict[int, _Out] = {}
    try:
        for number in range(min(num_threads(threads), len(items))):
            # When Python exits, it waits for the threads of an executor, but not for these.
            in_own_thread(work, f"mdstorm-each-{number}")
        following = 0
        for done in range(1, len(items) + 1):
            number, result = ended.get()
            results[number] = result.result()
            while following in results:
                yield results.pop(following)
                following += 1
            if on_progress is not None:
                on_progress(done, len(items))
    except BaseException as error:
        waiting.clear()
        stop(error)
        for thread in working:
            thread.result()
        raise


def settle(result: Future[Any], make: Callable[[], Any]) -> None:
    """Call `make`, and store its result or its error in `result`."""
    try:
        result.set_result(make())
    except BaseException as error:
        result.set_exception(error)


def in_own_thread(make: Callable[[], _Out], name: str) -> Future[_Out]:
    """Call `make` in a daemon thread of its own, which may be left behind; return its future."""
    result: Future[_Out] = Future()
    threading.Thread(target=settle, args=(result, make), name=name, daemon=True).start()
    return result
