"""Run the worker processes of a loader."""

from __future__ import annotations

import multiprocessing
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.reduction import ForkingPickler
from pickle import PicklingError
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from mdstorm_backend.base.prefetch import set_up_arrow
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.base.threads import WorkAhead
from mdstorm_backend.errors import ArgumentTypeError
from mdstorm_backend.loaders.rest import Batching, Rest
from mdstorm_backend.loaders.runner import Delivered
from mdstorm_backend.loaders.torch.dataset_samples import DatasetSamples
from mdstorm_backend.loaders.torch.torch_batches import (
    BatchMap,
    DeliveredBatches,
    Recipe,
    Sent,
    received,
)
from mdstorm_backend.loaders.torch.worker_part import end_with_parent


def from_processes(
    batches: DeliveredBatches, options: Mapping[str, Any], recorder: Recorder | None = None
) -> Delivered:
    """Hand on what worker processes make of `batches`; they end with this generator.

    Parameters
    ----------
    batches : DeliveredBatches
        In each worker that worker's.
    options : mapping
        Arguments of ``DataLoader``, ``num_workers`` among them.
    recorder : Recorder, optional
        Records what is waited for, and what the processes have recorded.
    """
    if not all(column.is_numpy() for column in batches.schema):
        set_up_arrow()  # once, and not in each process of each epoch
    iterator = _begin(_loader(batches, options))
    try:
        yield from received(iterator, recorder)
    finally:
        # Not left to the garbage collector: in a cycle, as errors make them, the processes would
        # not be told, and found out by a timeout.
        iterator._shutdown_workers()  # type: ignore[attr-defined]


def _loader(batches: IterableDataset[Any], options: Mapping[str, Any]) -> DataLoader[Any]:
    left_out = ("collate_fn", "drop_last", "batch_size")
    kept = {name: value for name, value in options.items() if name not in left_out}
    return DataLoader(batches, batch_size=None, collate_fn=same, **kept)


def same(batch: Any) -> Any:
    """Return a batch as it is."""
    return batch


def _context_of(options: Mapping[str, Any]) -> Any:
    """Return how worker processes are started: a context of `multiprocessing`."""
    context = options.get("multiprocessing_context")
    if context is None or isinstance(context, str):
        return multiprocessing.get_context(context)
    return context


def check_can_be_sent(batch_map: BatchMap | None, options: Mapping[str, Any]) -> None:
    """Refuse functions that a worker process would need and cannot be sent.

    A process that is forked has them already.

    Raises
    ------
    ArgumentTypeError
        If one does not pickle.
    """
    method = _context_of(options).get_start_method()
    if method == "fork":
        return
    for name, function in (("batch_map", batch_map), ("collate_fn", options.get("collate_fn"))):
        try:
            ForkingPickler.dumps(function)
        except (PicklingError, AttributeError, TypeError) as error:
            raise ArgumentTypeError(
                f"{name}={function!r} cannot be sent to worker processes, whose start method is "
                f"{method!r} ({error}): define the function at the top level of a module, not as a "
                'lambda, or pass multiprocessing_context="fork" or num_workers=0'
            ) from error


def _begin(loader: DataLoader[Any]) -> Iterator[Any]:
    """Begin an iteration whose processes can be told to end, even by the garbage collector.

    In a cycle, as an error and its traceback make them, that would close the queues first. Nobody
    told the processes then: each was waited for, for seconds, and killed.
    """
    iterator: Any = iter(loader)
    queues = [*iterator._index_queues, iterator._worker_result_queue]
    weakref.finalize(iterator, queues.clear).atexit = False
    return iterator  # type: ignore[no-any-return]


class PersistentWorkers:
    """Worker processes that stay for the passes that follow.

    Each learns what to read next from a queue of its own.

    Parameters
    ----------
    source : DatasetSamples
        What to read.
    recipe : Recipe
        How batches are made of it.
    batching : Batching
        How batches are made.
    options : mapping
        Arguments of ``DataLoader``.
    """

    def __init__(
        self,
        source: DatasetSamples,
        recipe: Recipe,
        batching: Batching,
        options: Mapping[str, Any],
    ) -> None:
        #: What the workers have copies of.
        self.options = source._mdstorm.schedule.options
        self.is_busy = False
        context = _context_of(options)
        self._queues = [context.SimpleQueue() for _ in range(batching.num_workers)]
        batches = _Rests(source, recipe, batching, self._queues)
        self._loader = _loader(batches, options)

    def deliver(self, rest: Rest) -> Delivered:
        """Yield the batches of a pass, or of an epoch."""
        self.is_busy = True
        try:
            for queue in self._queues:
                queue.put((rest.place, rest.options.order))
            # `iter` gives the one iterator there is, begun again.
            has_begun = self._loader._iterator is not None
            batches = self._loader if has_begun else _begin(self._loader)
            yield from received(batches, rest.recorder)
        finally:
            self.is_busy = False

    def shutdown(self) -> None:
        """End the processes."""
        iterator = self._loader._iterator
        if iterator is not None:
            iterator._shutdown_workers()  # type: ignore[attr-defined]


@dataclass(eq=False)
class _Rests(IterableDataset[Any]):
    """In a worker process: the batches of what is read next."""

    source: DatasetSamples
    recipe: Recipe
    batching: Batching
    queues: list[Any]
    ahead: WorkAhead[Any] = field(default_factory=WorkAhead)

    def __iter__(self) -> Iterator[Sent]:
        worker = get_worker_info()
        assert worker is not None
        end_with_parent()
        place, order = self.queues[worker.id].get()
        options = replace(self.source._mdstorm.schedule.options, order=order)
        rest = Rest(options, self.batching, place, ahead=self.ahead)
        return iter(DeliveredBatches(self.source, self.recipe, rest))
