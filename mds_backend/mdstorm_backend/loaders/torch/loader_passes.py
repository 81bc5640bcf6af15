"""`LoaderPasses`: what the modes of a `StreamingDataLoader` have in common.

`TorchPasses` count the samples in batches that PyTorch makes. `PlannedPasses` know each batch
before it is read. `CountedBlockPasses` read the same batches and count their samples, for a dataset
with its own state methods, which expect a number of samples. A loader chooses its mode when it is
made.
"""

from __future__ import annotations

from collections.abc import Generator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from mdstorm_backend.base.checks import overrides
from mdstorm_backend.base.work_ahead import PassThreads
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders import Consumer, Loader, Recorder, Trace
from mdstorm_backend.loaders.torch.counted_pass import CountedPass
from mdstorm_backend.loaders.torch.sample_states import state_of_rank
from mdstorm_backend.loaders.torch.streaming_dataset import (
    StreamingDataset,
    check_items_are_samples,
)
from mdstorm_backend.loaders.torch.torch_batches import BatchMap

if TYPE_CHECKING:
    from typing_extensions import Self

#: Which loaders know their batches before reading, for messages.
_KNOWN_BATCHES = (
    "requires a loader with a batch_size over a StreamingDataset without its own __iter__ or state "
    "methods, whose batches are known before they are read"
)


@dataclass
class LoaderPasses:
    """A loader's settings and passes, in one attribute so that subclasses can use any other name.

    Its position is a number of samples, unless a mode knows the batches.

    Attributes
    ----------
    batch_map : callable or None
        The function applied to each batch.
    device : torch.device or None
        The device that tensors are copied to.
    counted_pass : CountedPass or None
        The pass that was advanced last, if its samples are counted; otherwise None.
    has_length : bool
        Whether ``len`` is available to callers that assume that all passes have the same length.
    """

    batch_map: BatchMap | None
    device: torch.device | None
    threads: PassThreads = field(default_factory=PassThreads)
    recorder: Recorder = field(default_factory=Recorder)
    counted_pass: CountedPass | None = None
    has_length: bool = True

    def __copy__(self) -> Self:
        """Return a copy for a loader over the same dataset, without running iterations."""
        counted = None
        if self.counted is not None:
            _, samples, is_over = self.counted.position
            counted = replace(
                self.counted, consumer=Consumer(), samples=(samples,), is_over=is_over
            )
        return replace(self, threads=PassThreads(), recorder=Recorder(), counted_pass=counted)

    def __getstate__(self) -> dict[str, Any]:
        return dict(copy(self).__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        resumes = state.pop("resumes", None)  # of `BlockPasses`
        self.__dict__.update(state)
        if resumes is not None:
            epochs, position = resumes
            epochs.resume(position)

    @property
    def counted(self) -> CountedPass | None:
        """The latest pass, if its samples are counted and the position is within it."""
        counted = self.counted_pass
        return None if counted is None or counted.is_outdated else counted

    @property
    def num_samples(self) -> int:
        """Number of samples that the iteration that was advanced last has yielded."""
        return 0 if self.counted is None else self.counted.samples[-1]

    def end(self) -> None:
        """End running iterations, with their threads and processes."""
        self.threads.end()

    def loop(self, loader: DataLoader[Any]) -> Loader | None:
        """Return the object with a loader's position; None if PyTorch makes the batches."""
        return None

    def batches(self, loader: Any) -> Generator[Any, None, None]:
        """Run a pass of a loader, and yield its batches."""
        raise NotImplementedError

    def length(self, loader: DataLoader[Any]) -> int:
        """Return the number of batches in a pass, as PyTorch computes it from the dataset."""
        return DataLoader.__len__(loader)

    def set_epoch(self, loader: Any, epoch: int) -> None:
        """Choose the epoch of the next iteration over the dataset."""
        loader.dataset.set_epoch(epoch)
        self.counted_pass = None

    def state_dict(self, loader: Any) -> dict[str, Any] | None:
        """Return the dataset's state after the counted samples; None if it has no states."""
        dataset, counted = loader.dataset, self.counted
        if not isinstance(dataset, StreamingDataset):
            return None
        opened = dataset._mdstorm
        start, samples, is_over = (None, 0, False) if counted is None else counted.position
        if has_own_states(dataset):
            return dataset.state_dict(samples * opened.num_ranks, False)
        if counted is None:
            return opened.epochs.next_state(opened.options)
        check_items_are_samples(dataset)
        made = self._made_by_torch(loader)
        return state_of_rank(opened, samples, start, is_over=is_over, **made)

    def _made_by_torch(self, loader: Any) -> dict[str, Any]:
        """Return how PyTorch divides the samples among batches and worker processes, if it does."""
        return {}

    def load_state_dict(self, loader: DataLoader[Any], state: Any, skip_batches: int) -> None:
        """Resume the next iteration over the dataset from a state, if it has states."""
        if skip_batches:
            raise InvalidArgumentError(
                f"skip_batches={skip_batches} {_KNOWN_BATCHES}: leave it out, and leave these "
                "batches unused"
            )
        if isinstance(loader.dataset, StreamingDataset):
            loader.dataset.load_state_dict(state)
        self.counted_pass = None

    def trace(self, loader: DataLoader[Any], state: dict[str, Any] | None) -> Trace:
        """Return which rows the batches have; raise InvalidArgumentError if it is not known."""
        raise InvalidArgumentError(f"trace() {_KNOWN_BATCHES}")


def has_own_states(dataset: object) -> bool:
    """Whether a dataset overrides the state methods of `StreamingDataset`."""
    return isinstance(dataset, StreamingDataset) and overrides(
        dataset, StreamingDataset, "state_dict", "load_state_dict"
    )
