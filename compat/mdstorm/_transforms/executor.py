"""Run a reader's filters and `TransformSpec` on batches, in this process or in others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mdstorm._transforms.worker_pool import WorkerPool, pickle_function
from mdstorm_backend.format import Batch
from mdstorm_backend.read import Transform


class Executor:
    """A `Transform` that applies row filters one after another, and then changes columns.

    Parameters
    ----------
    filters : sequence of Transform
        Filters, which drop rows without changing values.
    change : Transform or None
        The column transform, which calls the user's function.
    columns : sequence of str
        The input columns of `change`; other columns are read only for the filters.
    workers : int
        Maximum number of worker processes that do this, or 0 to do it in this process.

    Attributes
    ----------
    columns : tuple of str
        The output columns.
    unchanged : frozenset of str
        The output columns that contain their stored values.
    leaves_out_rows : bool
        Whether there are filters.
    handles_nulls : bool
        Whether a filter is given nulls as they are stored, and fills and masks them afterwards.
    keeps_rows : bool
        Whether neither the filters nor `change` can drop rows.
    workers : WorkerPool or None
        The worker processes, if there are any.
    """

    def __init__(
        self,
        filters: Sequence[Transform],
        change: Transform | None,
        columns: Sequence[str],
        workers: int = 0,
    ) -> None:
        run = partial(_run, tuple(filters), change, tuple(columns))
        self.workers = WorkerPool(pickle_function(run), workers) if workers else None
        self._run: Callable[[Batch], Batch] = self.workers or run
        self.columns = tuple(columns if change is None else change.columns)
        self.unchanged = frozenset(columns if change is None else getattr(change, "unchanged", ()))
        self.leaves_out_rows = bool(filters)
        self.handles_nulls = any(getattr(step, "handles_nulls", False) for step in filters)
        keeps_rows = change is None or getattr(change, "keeps_rows", False)
        self.keeps_rows = keeps_rows and not filters

    def __call__(self, batch: Batch) -> Batch:
        """Filter and change a batch.

        Raises
        ------
        WorkerDiedError
            If a worker process ends unexpectedly. Errors from filters and `change` are raised
            unchanged.
        """
        return self._run(batch)


def _run(
    filters: Sequence[Transform], change: Transform | None, columns: Sequence[str], batch: Batch
) -> Batch:
    for step in filters:
        batch = step(batch)
    batch = {name: batch[name] for name in columns}
    return batch if change is None else change(batch)
