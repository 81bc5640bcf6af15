"""Apply a function to files in several processes."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

_Result = TypeVar("_Result")

#: Number of files per chunk, large enough to make the cost of sending it to a process small.
_CHUNK = 200


def map_files(
    function: Callable[[Path], _Result | None], paths: Sequence[Path], jobs: int = 1
) -> Iterator[_Result]:
    """Yield the results of `function` for all paths, in order, leaving out None.

    Parameters
    ----------
    function : callable
        The function; it and its results must be picklable.
    paths : sequence of Path
    jobs : int
        Number of processes.
    """
    chunks = [paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK)]
    if jobs == 1 or len(chunks) < 2:
        for chunk in chunks:
            yield from _call(function, chunk)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Spawn, because a process with threads must not be forked.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(chunks)), context, _ignore_interrupts)
    try:
        for results in pool.map(partial(_call, function), chunks):
            yield from results
    finally:
        pool.shutdown(cancel_futures=True)


def _ignore_interrupts() -> None:
    """Ignore interrupts in a worker, because only the main process handles them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(function: Callable[[Path], _Result | None], paths: Sequence[Path]) -> list[_Result]:
    # Garbage collection among the nodes of syntax trees would double the run time.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return [result for result in map(function, paths) if result is not None]
    finally:
        if was_enabled:
            gc.enable()
