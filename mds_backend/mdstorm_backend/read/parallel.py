"""Decode many values in threads, and images into one piece of memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import current_process
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

#: From a stored image, and memory that its pixels may fill, to its pixels.
DecodePixels: TypeAlias = Callable[[bytes, npt.NDArray[Any] | None], npt.NDArray[Any]]

#: More threads than that wait for each other's memory.
_MAX_WORKERS = 8

#: More memory than that is not asked for on the word of the first image.
_MAX_STACK_BYTES = 1 << 30


def default_workers() -> int:
    """Threads to decode with: as many as there are processors for this process, at most 8.

    In a daemon, such as a worker process of PyTorch's loader, it is one: others have the rest.
    """
    if current_process().daemon:
        return 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(usable or 1, _MAX_WORKERS)


def map_in_threads(function: Callable[[Any], Any], items: Sequence[Any], workers: int) -> list[Any]:
    """Call `function` with each item, in the order of the items, by so many threads."""
    workers = min(workers, len(items))
    if workers <= 1:
        return [function(item) for item in items]

    def each(part: Sequence[Any]) -> list[Any]:
        return [function(item) for item in part]

    # Parts small enough that the threads end together.
    size = max(1, len(items) // (4 * workers))
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    # A pool of its own for every call: one that lasted would be without threads after a fork.
    with ThreadPoolExecutor(workers, thread_name_prefix="mdstorm-decode") as pool:
        return [result for part in pool.map(each, parts) for result in part]


def decode_pixels(
    decode: DecodePixels, values: Sequence[bytes | None], workers: int
) -> npt.NDArray[Any]:
    """Decode images, in threads.

    Parameters
    ----------
    decode : callable
        Decodes one of them.
    values : sequence of bytes or None
        What is stored; None stays None.
    workers : int
        Number of threads.

    Returns
    -------
    numpy.ndarray
        Shape ``(rows, height, width[, channels])`` where all have one shape and dtype, otherwise
        ``(rows,)`` of dtype object.
    """
    first = None if not values or values[0] is None else decode(values[0], None)
    if first is None or None in values or first.nbytes * len(values) > _MAX_STACK_BYTES:
        alone = map_in_threads(lambda v: None if v is None else decode(v, None), values, workers)
        return np.fromiter(alone, object, len(alone))
    stack = np.empty((len(values), *first.shape), first.dtype)
    stack[0] = first

    def fill(row: int) -> npt.NDArray[Any] | None:
        """Decode one image into its place; return it if it does not fit."""
        value, place = values[row], stack[row]
        assert value is not None
        pixels = decode(value, place)
        return None if pixels is place else pixels

    others = [None, *map_in_threads(fill, range(1, len(values)), workers)]
    if all(pixels is None for pixels in others):
        return stack
    alone = [stack[row].copy() if p is None else p for row, p in enumerate(others)]
    return np.fromiter(alone, object, len(alone))
