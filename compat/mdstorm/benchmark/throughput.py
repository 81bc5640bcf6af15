"""Measure how fast `make_reader` reads a dataset: the mirror of its module in Petastorm."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from mdstorm.etl.dataset_metadata import get_schema_from_dataset_url
from mdstorm.reader import make_reader
from mdstorm.unischema import match_unischema_fields
from mdstorm.utils import run_in_subprocess
from mdstorm_backend.base import check_integer

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BenchmarkResult",
    "MemoryInfo",
    "ReadMethod",
    "WorkerPoolType",
    "reader_throughput",
]

#: Bytes of the unit in which the system says how much memory a process has used.
_MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024


class WorkerPoolType(Enum):
    """Where a reader reads, see `make_reader`."""

    THREAD = "thread"
    PROCESS = "process"
    NONE = "dummy"

    def __str__(self) -> str:
        return self.value


class ReadMethod(Enum):
    """What consumes the rows: a TensorFlow graph by `tf_tensors`, or Python."""

    TF = "tf"
    PYTHON = "python"

    def __str__(self) -> str:
        return self.value


class MemoryInfo(NamedTuple):
    """Memory of a process.

    Attributes
    ----------
    rss : int
        The most that it had in use so far, in bytes.
    """

    rss: int


class BenchmarkResult(NamedTuple):
    """What was measured.

    Attributes
    ----------
    time_mean : float
        Seconds per row, or per n-gram.
    samples_per_second : float
        Rows per second.
    memory_info : MemoryInfo
        Memory of the process that has read.
    cpu : float
        Its use of processors in percent of one.
    """

    time_mean: float
    samples_per_second: float
    memory_info: MemoryInfo
    cpu: float


def reader_throughput(
    dataset_url: str,
    field_regex: Sequence[str] | None = None,
    warmup_cycles_count: int = 300,
    measure_cycles_count: int = 1000,
    pool_type: WorkerPoolType = WorkerPoolType.THREAD,
    loaders_count: int = 3,
    profile_threads: bool = False,
    read_method: ReadMethod = ReadMethod.PYTHON,
    shuffling_queue_size: int = 500,
    min_after_dequeue: int | None = 400,
    reader_extra_args: Mapping[str, Any] | None = None,
    spawn_new_process: bool = True,
) -> BenchmarkResult:
    """Read rows of a dataset with `make_reader`, and measure time, memory and use of processors.

    Parameters
    ----------
    dataset_url : str
        Directory of a dataset with a schema.
    field_regex : sequence of str, optional
        Fields to read: regular expressions that match whole names; all by default.
    warmup_cycles_count, measure_cycles_count : int
        Rows to read before the measurement, and during it. The dataset is read in circles.
    pool_type : WorkerPoolType
        Where the reader reads.
    loaders_count : int
        Its workers.
    profile_threads : bool
        Not used.
    read_method : ReadMethod
        What takes the rows.
    shuffling_queue_size, min_after_dequeue : int
        Arguments of `tf_tensors`; None for 80 % of the queue.
    reader_extra_args : mapping, optional
        Further arguments of `make_reader`.
    spawn_new_process : bool
        Whether a process of its own reads, so that its memory is that of the reader alone.

    Raises
    ------
    InvalidArgumentError
        If a number is not a positive integer; also ValueError.
    """
    check_integer("warmup_cycles_count", warmup_cycles_count, lowest=0)
    check_integer("measure_cycles_count", measure_cycles_count, lowest=1)
    extra = dict(reader_extra_args or {})
    if "schema_fields" not in extra and field_regex:
        schema = get_schema_from_dataset_url(dataset_url)
        extra["schema_fields"] = match_unischema_fields(schema, field_regex)
    arguments = {
        "num_epochs": None,
        "reader_pool_type": str(pool_type),
        "workers_count": loaders_count,
        **extra,
    }
    cycles = warmup_cycles_count, measure_cycles_count
    least = shuffling_queue_size * 4 // 5 if min_after_dequeue is None else min_after_dequeue
    queue = (shuffling_queue_size, least) if read_method is ReadMethod.TF else None
    if not spawn_new_process:
        return _measured(dataset_url, arguments, cycles, queue)
    return run_in_subprocess(_measured, dataset_url, arguments, cycles, queue)


def _measured(
    url: str, arguments: dict[str, Any], cycles: tuple[int, int], queue: tuple[int, int] | None
) -> BenchmarkResult:
    with make_reader(url, **arguments) as reader, _taking(reader, queue) as take:
        for _ in range(cycles[0]):
            take()
        started, cpu_started = time.perf_counter(), time.process_time()
        for _ in range(cycles[1]):
            take()
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MEMORY_UNIT
    return BenchmarkResult(
        seconds / cycles[1], cycles[1] / seconds, MemoryInfo(peak), 100 * cpu / seconds
    )


@contextmanager
def _taking(reader: Any, queue: tuple[int, int] | None) -> Iterator[Callable[[], Any]]:
    """Yield a function that takes a row, within TensorFlow if it has a shuffling queue there."""
    if queue is None:
        yield lambda: next(reader)
        return
    import tensorflow as tf

    from mdstorm.tf_utils import tf_tensors

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        row = tf_tensors(reader, *queue)
        coordinator = v1.train.Coordinator()
        threads = v1.train.start_queue_runners(session, coordinator)
        try:
            yield lambda: session.run(row)
        finally:
            coordinator.request_stop()
            coordinator.join(threads)
