"""The batches of a `StreamingDataLoader` that are read as blocks, and their state."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader

from mdstorm_backend.base.pass_threads import PassThreads
from mdstorm_backend.loaders.pass_recorders import PassRecorders
from mdstorm_backend.loaders.rest import Batching, Rest
from mdstorm_backend.loaders.runner import Delivered, PassRunner
from mdstorm_backend.loaders.torch.dataset_samples import DatasetSamples
from mdstorm_backend.loaders.torch.device_batches import on_device
from mdstorm_backend.loaders.torch.torch_batches import (
    BatchMap,
    DeliveredBatches,
    Recipe,
    check_columns,
    pinned,
)
from mdstorm_backend.loaders.torch.torch_workers import PersistentWorkers, from_processes

#: Set where iterations are begun by one who fetches batches ahead of their use: says whether the
#: last one that was fetched is still to be used.
FETCHES_AHEAD: ContextVar[Callable[[], bool] | None] = ContextVar("FETCHES_AHEAD", default=None)


@dataclass
class KeptByLoader:
    """What a loader keeps behind one name: subclasses may use all others.

    Attributes
    ----------
    options : mapping
        Arguments of ``DataLoader`` as they were given.
    batch_map : callable or None
        What each batch goes through.
    device : torch.device or None
        Where tensors are brought to.
    collates : bool
        Whether batches are made of lists of samples, rather than whole columns.
    reads_blocks : bool
        Whether batches are read as blocks, rather than made by PyTorch of what the dataset yields.
    runner : PassRunner or None
        The passes; None before the first use, which opens the dataset.
    workers : PersistentWorkers or None
        Worker processes that stay.
    has_last : callable or None
        What `FETCHES_AHEAD` was when the last iteration was begun.
    counted : int or None
        Samples of the last iteration whose batches PyTorch has made, or a subclass; None if the
        runner knows.
    has_length : bool
        Whether those who take the length of one pass for that of all may know it.
    """

    options: Mapping[str, Any]
    batch_map: BatchMap | None
    device: torch.device | None
    collates: bool
    reads_blocks: bool
    runner: PassRunner | None = None
    workers: PersistentWorkers | None = None
    threads: PassThreads = field(default_factory=PassThreads)
    has_last: Callable[[], bool] | None = None
    recorders: PassRecorders = field(default_factory=PassRecorders)
    counted: int | None = None
    has_length: bool = True

    def __getstate__(self) -> dict[str, Any]:
        """Leave out running iterations; the copy continues where this loader stands."""
        threads, runner = PassThreads(), self.runner
        runner = None if runner is None else runner.to_continue(threads)
        return {
            **self.__dict__,
            "threads": threads,
            "runner": runner,
            "recorders": PassRecorders() if runner is None else runner.recorders,
            "workers": None,
            "has_last": None,
        }

    def end_workers(self) -> None:
        """End persistent workers; those of an iteration that goes on end with it."""
        workers, self.workers = self.workers, None
        if workers is not None and not workers.is_busy:
            workers.shutdown()


def source_of(loader: DataLoader[Any]) -> DatasetSamples:
    """Return the dataset of a loader that reads one of ours."""
    assert isinstance(loader.dataset, DatasetSamples)
    return loader.dataset


class BlockBatches:
    """Reads the batches of a loader. Made for each use: what stays is kept by the loader.

    Parameters
    ----------
    loader : DataLoader
        Its dataset makes samples in the order that it reads them.
    kept : KeptByLoader
        What it keeps.
    """

    def __init__(self, loader: DataLoader[Any], kept: KeptByLoader) -> None:
        self._loader = loader
        self._kept = kept
        self._source = source_of(loader)

    @property
    def _batching(self) -> Batching:
        loader = self._loader
        assert loader.batch_size is not None
        return Batching(loader.batch_size, loader.drop_last, loader.num_workers)

    @property
    def passes(self) -> PassRunner:
        """The passes over what the dataset reads: a state may have changed it."""
        schedule, kept = self._source._mdstorm.schedule, self._kept
        if kept.runner is None:
            kept.runner = PassRunner(
                schedule, self._batching, kept.threads, recorders=kept.recorders
            )
        kept.runner.schedule = schedule
        return kept.runner

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader stands."""
        has_last = self._kept.has_last
        return self.passes.state_dict(before_last=has_last is not None and has_last())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration continue where `state` was taken."""
        self.passes.load_state_dict(state)

    def run(self, count_rows: Callable[[Any], int] | None = None) -> Generator[Any, None, None]:
        """Go through a pass.

        Parameters
        ----------
        count_rows : callable, optional
            Says how many samples a batch counts as; by default those that were read for it.
        """
        kept = self._kept
        kept.recorders.note_asked()
        kept.counted, passes = None, self.passes
        if not kept.collates:
            check_columns(self._source._mdstorm.options)
        passes.remembers = kept.has_last is not None
        batches = passes.run(self._delivered)
        if count_rows is None:
            yield from batches
            return
        kept.counted = 0
        with closing(batches):
            for batch in batches:
                kept.counted += count_rows(batch)
                yield batch

    def _delivered(self, rest: Rest) -> Delivered:
        loader, kept = self._loader, self._kept
        made = DeliveredBatches(self._source, self._recipe, rest)
        if not loader.num_workers:
            batches = self.passes.converted(made.blocks(), made.converted)
        elif loader.persistent_workers:
            batches = self._from_persistent_workers(rest)
        else:
            batches = from_processes(made, self._process_options, rest.recorder)
        if kept.device is not None:
            return on_device(batches, kept.device)
        # The batches of workers are pinned by PyTorch.
        if loader.pin_memory and not loader.num_workers and torch.cuda.is_available():
            return pinned(batches, are_dicts=not kept.collates and kept.batch_map is None)
        return batches

    @property
    def _recipe(self) -> Recipe:
        kept = self._kept
        return Recipe(self._loader.collate_fn if kept.collates else None, kept.batch_map)

    @property
    def _process_options(self) -> dict[str, Any]:
        return {**self._kept.options, "num_workers": self._loader.num_workers}

    def _from_persistent_workers(self, rest: Rest) -> Delivered:
        kept, workers = self._kept, self._kept.workers
        options = self._source._mdstorm.schedule.options
        if workers is None or workers.options is not options or workers.is_busy:
            kept.end_workers()
            workers = kept.workers = PersistentWorkers(
                self._source, self._recipe, self._batching, self._process_options
            )
        try:
            yield from workers.deliver(rest)
        except Exception:
            kept.end_workers()
            raise
