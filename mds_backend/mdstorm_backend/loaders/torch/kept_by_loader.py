"""What a `StreamingDataLoader` keeps behind one name: subclasses may use all others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from mdstorm_backend.base.pass_threads import PassThreads
from mdstorm_backend.loaders.pass_recorders import PassRecorders
from mdstorm_backend.loaders.runner import PassRunner
from mdstorm_backend.loaders.torch.fetched_ahead import FetchedAhead

if TYPE_CHECKING:
    from mdstorm_backend.loaders.torch.torch_batches import BatchMap
    from mdstorm_backend.loaders.torch.torch_workers import PersistentWorkers


@dataclass
class KeptByLoader:
    """The arguments of a loader, its passes, and what it has under way.

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
    ahead: FetchedAhead = field(default_factory=FetchedAhead)
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
        }

    def end_workers(self) -> None:
        """End persistent workers; those of an iteration that goes on end with it."""
        workers, self.workers = self.workers, None
        if workers is not None and not workers.is_busy:
            workers.shutdown()
