"""Send batches from worker processes.

PyTorch pickles a worker's batches in a thread of `multiprocessing.Queue`. If that fails, because an
object cannot be pickled or because shared memory is full, the thread only prints the error, and the
loader waits for the batch forever. Here the worker pickles batches itself, and its errors are
raised in the loader's process.
"""

from __future__ import annotations

import errno
import os
import pickle
import weakref
from collections.abc import Callable, Generator
from io import BytesIO
from multiprocessing import connection, get_context, reduction
from typing import Any

import torch
from torch.utils.data import DataLoader

from mdstorm_backend.errors import LostBatchesError, TransformError

#: Seconds within which a process has ended once its connections are broken.
_PATIENCE = 5.0


class Pickled:
    """An object that is pickled when this is made; the receiver gets the object itself.

    Raises
    ------
    TransformError
        If the object cannot be pickled.
    LostBatchesError
        If shared memory has no room for the object's tensors.
    """

    def __init__(self, batches: object) -> None:
        content = BytesIO()
        try:
            reduction.ForkingPickler(content, pickle.HIGHEST_PROTOCOL).dump(batches)
        except Exception as error:
            _check_can_be_pickled(batches)
            raise no_memory(f"a worker process cannot send its batches ({error})") from error
        self._content = content.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self._content,)


def collated_and_pickled(collate: Callable[[Any], Any], items: Any) -> Pickled:
    """Return ``collate(items)`` for another process."""
    return Pickled(collate(items))


def _check_can_be_pickled(batches: object) -> None:
    """Raise TransformError if an object cannot be pickled, wherever its tensors are."""
    try:
        with open(os.devnull, "wb") as nowhere:
            pickler = reduction.ForkingPickler(nowhere)
            refuse = pickler.dispatch_table[torch.Tensor]
            # PyTorch sends a tensor, unless it belongs to a graph of gradients.
            pickler.dispatch_table[torch.Tensor] = lambda tensor: (
                (str, ()) if tensor.is_leaf or not tensor.requires_grad else refuse(tensor)
            )
            pickler.dump(batches)
    except Exception as error:
        raise TransformError(
            f"a batch cannot be sent from its worker process: {error}. Return tensors without "
            "gradients, and objects whose classes are at the top level of a module, from "
            "collate_fn and batch_map, or pass num_workers=0"
        ) from error


def no_memory(found: str) -> LostBatchesError:
    """Return the error for batches that do not fit into shared memory."""
    return LostBatchesError(
        f"{found}. Shared memory (/dev/shm) is probably full: give the container more, as with "
        "docker run --shm-size=8g, lower prefetch_factor or num_workers, or pass num_workers=0"
    )


def context_of(loader: DataLoader[Any]) -> Any:
    """Return the `multiprocessing` context that worker processes are started in."""
    return loader.multiprocessing_context or get_context()


def queues_to_workers(loader: DataLoader[Any], num_workers: int) -> list[Any]:
    """Return a queue to each of the worker processes that PyTorch will start.

    Raises
    ------
    LostBatchesError
        If shared memory has no room for their semaphores.
    """
    context = context_of(loader)
    try:
        queues = [context.SimpleQueue() for _ in range(num_workers)]
        # As many semaphores as PyTorch's iterator needs. If it cannot make one, it fails again when
        # it ends the processes that it has started.
        _ = [context.Queue() for _ in range(num_workers + 3)]
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise no_memory(f"worker processes cannot be started ({error})") from error
    return queues


def from_workers(iterator: Any) -> Generator[Any, None, None]:
    """Yield what one of PyTorch's iterators receives from its worker processes.

    Raises
    ------
    LostBatchesError
        If a process has ended while its tensors were received. PyTorch raises the error of the
        connection to it if it has not yet noticed the end.
    """
    if not hasattr(iterator, "_mdstorm_queues"):
        # If the iterator is in a reference cycle, such as that of an error and its traceback, the
        # garbage collector could close PyTorch's queues first. The processes would then not be
        # notified, and PyTorch would wait seconds for each process before killing it.
        queues = [*iterator._index_queues, iterator._worker_result_queue]
        iterator._mdstorm_queues = weakref.finalize(iterator, queues.clear)
        iterator._mdstorm_queues.atexit = False
    try:
        yield from iterator
    except (ConnectionError, EOFError, FileNotFoundError) as error:
        if "in DataLoader worker process" in str(error):  # an error of a process that has not ended
            raise
        workers = {worker.sentinel: worker for worker in iterator._workers}
        for ended in connection.wait(list(workers), _PATIENCE):
            worker = workers[ended]
            worker.join()
            raise LostBatchesError(
                f"DataLoader worker (pid {worker.pid}) exited unexpectedly with exit code "
                f"{worker.exitcode}. Negative codes are signals: -9 usually means that memory ran "
                "out. With num_workers=0, errors are raised where they occur"
            ) from error
        raise
