"""The sample ids of each worker of a rank."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mdstorm_backend.elastic.batching import Schedule
from mdstorm_backend.elastic.id_arrays import CHUNK, as_integer, chunks
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order.world import World


def work_of_rank(
    plan: Schedule, world: World, batch_size: int, num_workers: int, worker: int | None = None
) -> npt.NDArray[np.int64]:
    """Compute the batches of a rank's workers in chunks, to need little other memory.

    Parameters
    ----------
    plan : Schedule
        The rest of an epoch.
    world : World
        The rank, in the world that the plan was made for.
    batch_size : int
        Samples of a batch of the rank.
    num_workers : int
        Batch i belongs to worker i modulo this.
    worker : int, optional
        The only worker to compute batches for.

    Returns
    -------
    numpy.ndarray
        int64 of shape (requested workers, batches per worker, batch size), -1 for padding.

    Raises
    ------
    InvalidArgumentError
        If there is no such worker.
    """
    workers = range(as_integer("num_workers", num_workers, 1))
    if worker is not None and worker not in workers:
        raise InvalidArgumentError(
            f"worker {worker} of {num_workers} does not exist: workers are numbered from 0"
        )
    asked = workers if worker is None else [worker]
    first, count = plan.numbers.start, len(plan.numbers)
    ids = np.empty((len(asked), -(-count // num_workers), batch_size), np.int64)
    for of_worker, number in zip(ids, asked, strict=True):
        own = len(range(number, count, num_workers))
        for part in chunks(own, CHUNK // batch_size):
            numbers = first + number + num_workers * np.arange(part.start, part.stop)
            of_worker[part] = plan.batches(numbers, world.node, world.local_rank)
        of_worker[own:] = -1
    return ids
