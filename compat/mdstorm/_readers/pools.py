"""Petastorm's pools of workers, as far as they are arguments of a reader."""

from __future__ import annotations

from typing import Any

from mdstorm._public import public
from mdstorm.errors import MissingAttributeError
from mdstorm_backend.base import check_integer


class Pool:
    """Where a reader reads. The workers themselves belong to the reading core.

    Attributes
    ----------
    reader_pool_type : {"thread", "process", "dummy"}
        As in `make_reader`.
    workers_count : int
        Threads or processes.
    results_queue_size : int
        Most results to prepare ahead of use.
    """

    reader_pool_type: str

    def __init__(self, workers_count: int, results_queue_size: int = 50) -> None:
        check_integer("workers_count", workers_count, lowest=1)
        check_integer("results_queue_size", results_queue_size, lowest=1)
        self.workers_count = workers_count
        self.results_queue_size = results_queue_size

    def __getattr__(self, name: str) -> Any:
        raise MissingAttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}: it is an argument of "
            "Reader, and runs no workers of other classes. See "
            "docs/differences.md#workers-and-their-queues of mdstorm"
        )


@public("mdstorm.workers_pool.thread_pool")
class ThreadPool(Pool):
    """Read in threads.

    Parameters
    ----------
    workers_count : int
        How many.
    results_queue_size : int
        Most results to prepare ahead of use.
    profiling_enabled, shuffle_rows, seed
        Not used: the reader has them.

    Raises
    ------
    InvalidArgumentError
        If a number is not a positive integer; also ValueError.
    """

    reader_pool_type = "thread"

    def __init__(
        self,
        workers_count: int,
        results_queue_size: int = 50,
        profiling_enabled: bool = False,
        shuffle_rows: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__(workers_count, results_queue_size)


@public("mdstorm.workers_pool.process_pool")
class ProcessPool(Pool):
    """Read in threads, and call user-defined functions in processes.

    Parameters
    ----------
    workers_count : int
        How many.
    serializer, zmq_copy_buffers
        Not used: batches are sent to the processes as they are.

    Raises
    ------
    InvalidArgumentError
        If the number is not a positive integer; also ValueError.
    """

    reader_pool_type = "process"

    def __init__(
        self, workers_count: int, serializer: Any = None, zmq_copy_buffers: bool = True
    ) -> None:
        super().__init__(workers_count)


@public("mdstorm.workers_pool.dummy_pool")
class DummyPool(Pool):
    """Read in the thread that asks for a row or a batch.

    Parameters
    ----------
    workers : object
        Not used.
    """

    reader_pool_type = "dummy"

    def __init__(self, workers: Any = None) -> None:
        super().__init__(1)
