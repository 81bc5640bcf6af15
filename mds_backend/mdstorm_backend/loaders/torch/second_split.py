"""Reject a second split of samples that a dataset has already split among ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from mdstorm_backend.errors import InvalidArgumentError


def refuse_second_split(opened: object, count_ranks: Callable[[], int]) -> None:
    """Refuse to read a share for a loader of Accelerate, which splits what it reads.

    Its loaders, those of Hugging Face's Trainer among them, say when they are iterated. They give
    each process a part of the samples, and here each process has but its own, so that all the
    others' would be lost. A `StreamingDataLoader` that Accelerate has prepared splits nothing.

    Parameters
    ----------
    opened : object
        What is behind the dataset that is going to be read.
    count_ranks : callable
        Returns among how many ranks it has shared out its samples.

    Raises
    ------
    InvalidArgumentError
        If an active loader reads that dataset, and both split.
    """
    state = sys.modules.get("accelerate.state")
    if state is None or state.PartialState._shared_state.get("num_processes", 1) == 1:
        return
    read = getattr(state.GradientState().active_dataloader, "dataset", None)
    while read is not None and _behind(read) is not opened:
        read = getattr(read, "dataset", None)
    if read is not None and (num_ranks := count_ranks()) > 1:
        raise InvalidArgumentError(
            "Accelerate, as in accelerator.prepare(DataLoader(dataset)) or Hugging Face's Trainer, "
            "splits the samples among its processes, and this dataset has split them among "
            f"{num_ranks} ranks before, so that rows would be lost. With a Trainer, derive its "
            "class from mdstorm.transformers.StreamingTrainerMixin as well: class "
            "MyTrainer(StreamingTrainerMixin, Trainer). With an Accelerator, prepare a "
            "StreamingDataLoader(dataset, batch_size=…) or a converter's loader"
        )


def _behind(dataset: Any) -> object:
    return getattr(dataset, "_mdstorm", None)
