"""Map a function over files in several processes."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

_Result = TypeVar("_Result")

#: Files a process gets at once: enough that handing them over costs little.
_CHUNK = 200


def each(
    function: Callable[[Path], _Result | None], paths: Sequence[Path], jobs: int = 1
) -> Iterator[_Result]:
    """Yield what `function` returns for each path, in their order, leaving out None.

    Parameters
    ----------
    function : callable
        Can be pickled, as its results can.
    paths : sequence of Path
    jobs : int
        How many processes work.
    """
    chunks = [paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK)]
    if jobs == 1 or len(chunks) < 2:
        for chunk in chunks:
            yield from _call(function, chunk)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Spawned, since a process with threads must not be forked.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(chunks)), context, _leave_interrupts_to_the_parent)
    try:
        for results in pool.map(partial(_call, function), chunks):
            yield from results
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    """Let a file that is being written be finished."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(function: Callable[[Path], _Result | None], paths: Sequence[Path]) -> list[_Result]:
    # Looking for garbage among the nodes of trees takes as long as all the rest.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return [result for result in map(function, paths) if result is not None]
    finally:
        if was_enabled:
            gc.enable()
