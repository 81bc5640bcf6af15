"""Measure writing, reading and memory in the same way for every library."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from sizes import SMALLEST, size
from table import FIRST_COLUMN, LAST_COLUMN, ROWS, numeric_table

WARM_WRITES = size(3, 1)
EMPTY_READ_RETRIES = 5

_Measured = TypeVar("_Measured")

# A context manager that opens one library's loader, which iterates over batches.
Loader = AbstractContextManager[Iterable[Any]]


def arguments(description: str | None) -> argparse.Namespace:
    """Parse the options shared by the measurements."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the table")
    return parser.parse_args()


def time_writes(session: Any, write: Callable[[Any], Any], rows: int) -> tuple[dict[str, Any], Any]:
    """Time the session's first write and further ones; also return the last write's result.

    Every write gets a frame with different values, so that no library can reuse an earlier copy.
    """
    seconds = []
    result = None
    for seed in range(1 + WARM_WRITES):
        frame = numeric_table(session, seed, rows)
        start = time.perf_counter()
        result = write(frame)
        seconds.append(time.perf_counter() - start)
        frame.unpersist(blocking=True)
    figures = {
        "materialize_first_s": seconds[0],
        "materialize_second_s": statistics.median(seconds[1:]),
        "materialize_warm_runs_s": seconds[1:],
    }
    return figures, result


def touch_mapping(batch: Any) -> int:
    """Count the rows in a dict batch, accessing its first and last columns."""
    rows = batch[FIRST_COLUMN].shape[0]
    assert batch[LAST_COLUMN].shape[0] == rows
    return int(rows)


def touch_namedtuple(batch: Any) -> int:
    """Count the rows in a namedtuple batch, accessing its first and last columns."""
    rows = batch[0].shape[0]
    assert batch[-1].shape[0] == rows
    return int(rows)


def read_once(
    open_loader: Callable[[], Loader], touch: Callable[[Any], int], expected_rows: int
) -> float:
    """Return the duration of one pass in seconds, from opening the loader to its last batch.

    Opening is included, because training waits for it. Closing is not, because stopping worker
    threads is not reading. A pass without any rows is repeated, because Petastorm's thread pool
    sometimes ends before the first row. Any other wrong count is an error.
    """
    for _ in range(EMPTY_READ_RETRIES):
        rows = 0
        start = time.perf_counter()
        with open_loader() as loader:
            for batch in loader:
                rows += touch(batch)
            seconds = time.perf_counter() - start
        if rows:
            if rows != expected_rows:
                raise RuntimeError(f"read {rows} rows, expected {expected_rows}")
            return seconds
    raise RuntimeError(f"{EMPTY_READ_RETRIES} consecutive passes yielded no rows")


def reading_speed(
    open_loader: Callable[[], Loader],
    touch: Callable[[Any], int],
    rows: int,
    *,
    passes: int = size(3, 1),
    seconds: float = size(3.0, 0.0),
) -> dict[str, Any]:
    """Return the median rows per second, over at least `passes` passes and `seconds` in total.

    The passes are preceded by a warm-up pass.
    """
    read_once(open_loader, touch, rows)
    took: list[float] = []
    while len(took) < passes or sum(took) < seconds:
        took.append(read_once(open_loader, touch, rows))
    return {
        "rows_per_s": rows / statistics.median(took),
        "slowest": rows / max(took),
        "fastest": rows / min(took),
        "passes": len(took),
        "rows_per_pass": rows,
    }


def rows_per_cpu_second(
    read: Callable[[], Iterable[Any]],
    touch: Callable[[Any], int],
    expected_rows: int,
    seconds: float = size(1.0, 0.0),
) -> float:
    """Return the rows per CPU second, measured over enough passes to use `seconds` of CPU time.

    Unlike wall-clock time, CPU time allows comparing libraries that use one thread with those that
    use several processes, and is hardly affected by other programs on the machine. The passes are
    preceded by a warm-up pass, in which memory is new: that may cost as much as what is measured.
    """
    for _ in read():
        pass
    passes = 1
    while True:
        before = _cpu_seconds()
        rows = sum(touch(batch) for _ in range(passes) for batch in read())
        after = _cpu_seconds()
        if rows != passes * expected_rows:
            raise RuntimeError(f"read {rows} rows, expected {passes * expected_rows}")
        # The CPU time of processes that have ended in the meantime is unknown.
        spent = sum(after[pid] - before.get(pid, 0) for pid in after)
        if spent >= seconds:
            return rows / spent
        passes *= 2


def _cpu_seconds() -> dict[int, float]:
    """Return the CPU time used so far by this process and all its descendants."""
    import psutil

    me = psutil.Process()
    times = {process.pid: process.cpu_times() for process in me.children(recursive=True)}
    below = {pid: spent.user + spent.system for pid, spent in times.items()}
    return {me.pid: time.process_time(), **below}


@contextmanager
def pillow_alone() -> Iterator[None]:
    """Decode images as if simplejpeg were not installed, with the code that then runs."""
    from mdstorm_backend.format.encodings.decode_images import turbo_module

    sys.modules["simplejpeg"] = None  # Python then does not find it
    turbo_module.cache_clear()
    try:
        yield
    finally:
        del sys.modules["simplejpeg"]
        turbo_module.cache_clear()


def with_version(library: str) -> str:
    """Return the name of an installed library and its version."""
    return f"{library} {version(library)}"


def in_a_process(measure: Callable[..., _Measured], *arguments: Any) -> _Measured:
    """Call `measure` in a new process, unaffected by other measurements."""
    if SMALLEST:
        return measure(*arguments)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as executor:
        return executor.submit(measure, *arguments).result()


def peak_memory(open_epoch: Callable[[], Loader], epochs: int = 5) -> dict[str, float]:
    """Measure peak memory in MiB after the first epoch, and its growth by the end of the last one.

    Must run in a new process, because earlier measurements would raise the peak.
    """
    peaks = []
    for _ in range(epochs):
        with open_epoch() as loader:
            for batch in loader:
                touch_mapping(batch)
        peaks.append(_peak_mib())
    return {"first_epoch_mib": peaks[0], "growth_mib": peaks[-1] - peaks[0]}


def _peak_mib() -> float:
    # ru_maxrss is not used, because on Linux it starts at the parent process's peak.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status does not contain the peak memory")


def emit(figures: dict[str, Any]) -> None:
    """Print one line of JSON on stdout, for `run.py`."""
    print(json.dumps(figures), flush=True)
