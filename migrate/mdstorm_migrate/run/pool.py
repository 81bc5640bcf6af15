"""Apply functions to files in several processes, each of which keeps what it knows of its files."""

from __future__ import annotations

import gc
import os
import signal
import zlib
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

_State = TypeVar("_State")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

#: Number of files per process, large enough to make the cost of starting it small.
_SHARE = 200


class Workers(Generic[_State]):
    """Processes, each with a state of its own; a file always goes to the same one.

    Parameters
    ----------
    make : callable
        Makes the state of a process; it must be picklable.
    number_of_files : int
    jobs : int
        Maximum number of processes; with 1, or few files, everything runs in this process.
    """

    def __init__(self, make: Callable[[], _State], number_of_files: int, jobs: int) -> None:
        jobs = min(jobs, -(-number_of_files // _SHARE))
        self._state = make()
        self._pools = [_pool(make) for _ in range(jobs)] if jobs > 1 else []

    def __enter__(self) -> Workers[_State]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)

    def map(
        self, function: Callable[[_State, Path, _Item], _Result], items: dict[Path, _Item]
    ) -> dict[Path, _Result]:
        """Return the results of `function` for the state, each path and its item.

        The function, items and results must be picklable.
        """
        if not self._pools:
            return {path: function(self._state, path, item) for path, item in items.items()}
        shares: list[dict[Path, _Item]] = [{} for _ in self._pools]
        for path, item in items.items():
            shares[zlib.crc32(os.fsencode(path)) % len(shares)][path] = item
        futures = [
            pool.submit(_call, function, share)
            for pool, share in zip(self._pools, shares, strict=True)
        ]
        return {path: result for one in futures for path, result in one.result().items()}


def _pool(make: Callable[[], object]) -> ProcessPoolExecutor:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    # Spawn, because a process with threads must not be forked.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, _start, (make,))


def _start(make: Callable[[], object]) -> None:
    """Prepare a process; only the main one handles interrupts."""
    global _state
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    _state = make()


_state: object = None


def _call(
    function: Callable[[Any, Path, _Item], _Result], items: dict[Path, _Item]
) -> dict[Path, _Result]:
    return {path: function(_state, path, item) for path, item in items.items()}
