"""A transform that runs in worker processes, for ``reader_pool_type='process'``."""

from __future__ import annotations

from typing import Any

from mdstorm._transforms.function_pickles import pickle_function
from mdstorm._transforms.worker_pool import WorkerPool
from mdstorm_backend.base import cached_property
from mdstorm_backend.format import Batch
from mdstorm_backend.read import Transform


class ProcessTransform:
    """Calls a transform in worker processes. Safe to share between threads.

    Results come in the order of the calls, whichever process is faster. It can be pickled, and a
    copy in another process has worker processes of its own.

    Parameters
    ----------
    transform : Transform
        What to call; user-defined functions may be lambdas.
    workers : int
        Processes.

    Attributes
    ----------
    columns, unchanged, leaves_out_rows
        Those of `transform`.
    """

    def __init__(self, transform: Transform, workers: int) -> None:
        self._pickled = pickle_function(transform)
        self._workers = workers
        self.columns = tuple(transform.columns)
        self.unchanged = frozenset(getattr(transform, "unchanged", ()))
        self.leaves_out_rows = bool(getattr(transform, "leaves_out_rows", False))

    def __call__(self, batch: Batch) -> Batch:
        """Return the transformed batch.

        Raises
        ------
        WorkerDiedError
            If the process ends unexpectedly. Errors of the transform are raised unchanged.
        """
        result: Batch = self._pool(batch)
        return result

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of batches sent, returned and in progress."""
        asked, answered = self._pool.asked, self._pool.answered
        return {
            "items_consumed": answered,
            "items_produced": answered,
            "items_inprocess": asked - answered,
        }

    def close(self) -> None:
        """End the processes at once; there will be no further calls."""
        self._pool.close()

    @cached_property
    def _pool(self) -> WorkerPool:
        return WorkerPool(self._pickled, self._workers)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_pool"}
