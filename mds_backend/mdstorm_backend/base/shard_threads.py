"""Process shards, or other files, in several threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, TypeVar

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
