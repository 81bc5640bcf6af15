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
    """Yield `batches` as made by worker processes, which end with this generator.

    Parameters
    ----------
    batches : DeliveredBatches
        The batches; each worker makes its part of them.
    options : mapping
        Arguments of ``DataLoader``, including ``num_workers``.
    recorder : Recorder, optional
        Records waiting times, and what the workers recorded.
    """
    if not all(column.is_numpy() for column in batches.schema):
        set_up_arrow()  # once, rather than in each process of each epoch
    iterator = _begin(_loader(batches, options))
    try:
        yield from received(iterator, recorder)
    finally:
        # Not left to the garbage collector: in a reference cycle, which errors create, the
        # processes would not be notified and would end only after a timeout.
        iterator._shutdown_workers()  # type: ignore[attr-defined]


def _loader(batches: IterableDataset[Any], options: Mapping[str, Any]) -> DataLoader[Any]:
    left_out = ("collate_fn", "drop_last", "batch_size")
    kept = {name: value for name, value in options.items() if name not in left_out}
    return DataLoader(batches, batch_size=None, collate_fn=same, **kept)


def same(batch: Any) -> Any:
    """Return a batch unchanged."""
    return batch


def _context_of(options: Mapping[str, Any]) -> Any:
    """Return the `multiprocessing` context in which worker processes are started."""
    context = options.get("multiprocessing_context")
    if context is None or isinstance(context, str):
        return multiprocessing.get_context(context)
    return context


def check_can_be_sent(batch_map: BatchMap | None, options: Mapping[str, Any]) -> None:
    """Raise if a function that worker processes need cannot be sent to them.

    A forked process inherits the functions.

    Raises
    ------
    ArgumentTypeError
        If a function cannot be pickled.
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
    """Begin an iteration whose processes end promptly, even if it is garbage-collected.

    In a reference cycle, such as an error and its traceback, the garbage collector could close the
    queues first. Then nothing would notify the processes: each would be waited for, for seconds,
    and killed.
    """
    iterator: Any = iter(loader)
    queues = [*iterator._index_queues, iterator._worker_result_queue]
    weakref.finalize(iterator, queues.clear).atexit = False
    return iterator  # type: ignore[no-any-return]


class PersistentWorkers:
    """Worker processes that are kept for later passes.

    Each process receives what to read next through its own queue.

    Parameters
    ----------
    source : DatasetSamples
        The dataset to read.
    recipe : Recipe
        How batches are made from blocks.
    batching : Batching
        How samples are divided into batches.
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
        #: The reader options that the workers have copies of.
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
            # `iter` of a loader that has begun resets its one iterator.
            has_begun = self._loader._iterator is not None
            batches = self._loader if has_begun else _begin(self._loader)
            yield from received(batches, rest.recorder)
        finally:
            self.is_busy = False

    def shutdown(self) -> None:
        """End the worker processes."""
        iterator = self._loader._iterator
        if iterator is not None:
            iterator._shutdown_workers()  # type: ignore[attr-defined]


@dataclass(eq=False)
class _Rests(IterableDataset[Any]):
    """The batches that a persistent worker makes, each time of what its queue names."""

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
