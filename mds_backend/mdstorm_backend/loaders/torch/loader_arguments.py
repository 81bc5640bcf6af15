"""Check the arguments of `StreamingDataLoader`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset
from mdstorm_backend.read.batch_reader import check_batch_size

#: Arguments of ``DataLoader`` that say which samples come when.
_SAMPLERS = ("shuffle", "sampler", "batch_sampler")


def check_arguments(
    dataset: object, batch_size: object, batch_map: object, options: Mapping[str, Any]
) -> None:
    """Refuse what a loader cannot do.

    Parameters
    ----------
    dataset, batch_size, batch_map
        As given.
    options : mapping
        Arguments of ``DataLoader``.

    Raises
    ------
    ArgumentTypeError
        If `dataset` is no `StreamingDataset`, or `batch_map` no function.
    InvalidArgumentError
        If a value is not possible, or arguments do not go together.
    """
    if not isinstance(dataset, StreamingDataset):
        raise ArgumentTypeError(
            f"a StreamingDataLoader reads a StreamingDataset of mdstorm_backend, found "
            f"{type(dataset).__name__}: use torch.utils.data.DataLoader for other datasets"
        )
    check_batch_size(batch_size)
    if given := [n for n in _SAMPLERS if options.get(n) not in (None, False)]:
        raise InvalidArgumentError(
            f"{', '.join(given)}: the samples come in the order of the dataset. Shuffle with "
            "StreamingDataset(…, shuffle=True), choose with its streams, and give batch_size"
        )
    if not options.get("in_order", True):
        raise InvalidArgumentError(
            "in_order=False would let batches come in any order, so that no state could say "
            "which of them were delivered: leave it out"
        )
    if batch_map is None:
        return
    if not callable(batch_map):
        raise ArgumentTypeError(
            "batch_map must be a function from a batch to what the model takes, found "
            f"{batch_map!r}"
        )
    if options.get("collate_fn") is not None:
        raise InvalidArgumentError(
            "batch_map gets a whole batch and collate_fn a list of samples: give one of them. "
            "batch_map is far faster; a collate_fn may call it on the batch that it makes"
        )
