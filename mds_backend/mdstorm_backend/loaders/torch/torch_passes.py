"""`TorchPasses`: the passes of a `StreamingDataLoader` whose batches PyTorch makes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

from torch.utils.data import DataLoader

from mdstorm_backend.loaders import MOST_UNUSED, NumberedBatches
from mdstorm_backend.loaders.torch import moved_batches
from mdstorm_backend.loaders.torch.counted_pass import CountedPass
from mdstorm_backend.loaders.torch.loader_passes import LoaderPasses
from mdstorm_backend.loaders.torch.sent_batches import (
    collated_and_pickled,
    from_workers,
    queues_to_workers,
)


class TorchPasses(LoaderPasses):
    """Passes over single samples, or over a dataset of another class or with its own iteration."""

    def batches(self, loader: Any) -> Generator[Any, None, None]:
        """Iterate with PyTorch's own loader, counting the rows that it yields."""
        counted = CountedPass.over(loader.dataset)
        epochs = counted.epochs
        made = _made_by_workers(loader) if loader.num_workers else DataLoader.__iter__(loader)
        batches: NumberedBatches = ((batch, 0, 0) for batch in made)
        if self.device is not None:
            batches = moved_batches.on_device(batches, self.device)
        recorder = self.recorder
        recorder.begin()
        self.counted_pass = counted
        for batch, _, _ in recorder.consumed(batches):
            rows = loader._get_batch_size(batch)
            # This call precedes the counting, since Ctrl-C in a call after it would lose the batch.
            recorder.record_received([rows])
            samples, counted.changes = counted.samples, 0 if epochs is None else epochs.changes
            counted.samples = (*samples[-MOST_UNUSED:], samples[-1] + rows)
            self.counted_pass = counted  # another iteration may have been advanced in the meantime
            yield batch
            recorder.record_request()
        counted.is_over, self.counted_pass = True, counted
        recorder.record_received()  # the end

    def _made_by_torch(self, loader: Any) -> dict[str, Any]:
        if loader._mdstorm_counts_itself():
            return {}
        return {"batch_size": loader.batch_size or 1, "num_workers": loader.num_workers}


def _made_by_workers(loader: DataLoader[Any]) -> Iterator[Any]:
    """Iterate with PyTorch's own loader, whose worker processes pickle their batches."""
    queues_to_workers(loader, loader.num_workers)  # raises an error if there is no room for them
    collate = loader.collate_fn
    loader.collate_fn = partial(collated_and_pickled, collate)
    try:
        batches = DataLoader.__iter__(loader)
    finally:
        loader.collate_fn = collate
    return from_workers(batches)
