"""A loader that Accelerate has prepared."""

from __future__ import annotations

from collections.abc import Generator
from copy import copy
from itertools import islice
from typing import Any

import torch
from accelerate.state import GradientState
from torch.utils.data import DataLoader

from mdstorm_backend.base.own_context import OwnContext
from mdstorm_backend.integrations.prepared_loader import PreparedBatches
from mdstorm_backend.loaders.loader_statistics import Statistics
from mdstorm_backend.loaders.torch.streaming_data_loader import StreamingDataLoader


class PreparedLoader(OwnContext, DataLoader[Any]):
    """A `StreamingDataLoader` after ``accelerator.prepare``: this rank's share, on its device.

    Accelerate, and those who use its loaders, find what they look for: ``batch_size`` is None and
    ``dataset`` yields whole batches, and has as many rows as it says.

    Parameters
    ----------
    loader : StreamingDataLoader
        Has this rank's batches.
    device : torch.device or None
        Where tensors go; None leaves them where they are.
    non_blocking : bool
        Copy them without waiting.
    use_stateful_dataloader : bool
        Whether ``save_state`` saves where the loader stands.

    Attributes
    ----------
    device, use_stateful_dataloader
        As given.
    gradient_state : GradientState
        Accelerate's, which knows the end of the loader that is iterated.
    """

    #: Accelerate asks for it before it prepares a loader once more, and sets it.
    _is_accelerate_prepared = True

    def __init__(
        self,
        loader: StreamingDataLoader,
        *,
        device: torch.device | None,
        non_blocking: bool,
        use_stateful_dataloader: bool,
    ) -> None:
        self.device = device
        self.use_stateful_dataloader = use_stateful_dataloader
        self._skipped = 0
        batches = PreparedBatches(loader, device, non_blocking=non_blocking)
        super().__init__(batches, batch_size=None, collate_fn=_same)

    @property
    def _batches(self) -> PreparedBatches:
        assert isinstance(self.dataset, PreparedBatches)
        return self.dataset

    @property
    def gradient_state(self) -> GradientState:
        """Accelerate's, which knows the end of the loader that is iterated."""
        return GradientState()

    @property
    def end_of_dataloader(self) -> bool:
        """Whether the batch that was delivered last is the last of its pass."""
        return self._batches.end_of_dataloader

    @property
    def remainder(self) -> int:
        """Rows of the last global batch without its padding; 0 if it has none."""
        return self._batches.remainder

    @property
    def total_batch_size(self) -> int:
        """Rows of a global batch."""
        batch_size = self._batches.loader.batch_size
        assert batch_size is not None
        return batch_size * int(self._batches.order.world_size)

    @property
    def total_dataset_length(self) -> int:
        """Rows of an epoch over all ranks."""
        return len(self._batches)

    def __len__(self) -> int:
        """Batches of a whole pass, the same number on every rank.

        Raises
        ------
        TypeError
            If nobody knows.
        """
        return len(self._batches.loader) - self._skipped

    def __iter__(self) -> Generator[Any, None, None]:  # type: ignore[override]
        yield from islice(self._batches, self._skipped, None)

    def mdstorm_skipping(self, num_batches: int) -> PreparedLoader:
        """Return a loader of the same batches that leaves out the first ones of an iteration."""
        other = copy(self)
        other._skipped = self._skipped + num_batches
        return other

    def set_epoch(self, epoch: int) -> None:
        """Say with which epoch the next iteration begins."""
        self._batches.loader.set_epoch(epoch)

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return what was delivered so far, and waited for: see `StreamingDataLoader`."""
        return self._batches.loader.statistics(last_pass=last_pass)

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader stands, the same on all ranks: see `StreamingDataLoader`."""
        return self._batches.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration go on where a state was taken, in any world.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or order, or is not a state.
        """
        self._batches.load_state_dict(state)

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self.close()

    def close(self) -> None:
        """End running iterations, their threads and processes. The loader can be iterated again."""
        self._batches.loader.close()


def _same(batch: Any) -> Any:
    return batch
