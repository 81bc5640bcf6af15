"""Check the arguments of `StreamingDataLoader`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils.data import IterableDataset

from mdstorm_backend.base.checks import check_function
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.loaders.torch.dataset_samples import DatasetSamples
from mdstorm_backend.read.reader import check_batch_size

#: Arguments of ``DataLoader`` after the dataset and the batch size, in its order.
_IN_ORDER = (
    "shuffle",
    "sampler",
    "batch_sampler",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "drop_last",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
)
#: Arguments of ``DataLoader`` that say which samples come when.
_SAMPLERS = ("shuffle", "sampler", "batch_sampler")


def named(arguments: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of ``DataLoader`` by name, those given by position among them.

    Raises
    ------
    ArgumentTypeError
        If there are too many, or one is given twice.
    """
    if len(arguments) > len(_IN_ORDER):
        raise ArgumentTypeError(
            f"a DataLoader takes at most {len(_IN_ORDER) + 2} arguments by position, found "
            f"{len(arguments) + 2}: pass the others by name"
        )
    by_place = dict(zip(_IN_ORDER, arguments, strict=False))
    if twice := sorted(by_place.keys() & options.keys()):
        raise ArgumentTypeError(f"{', '.join(twice)} was passed by position and by name")
    found = {**by_place, **options}
    return {**found, "num_workers": int(found.get("num_workers", 0))}


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
        If `dataset` is no dataset, or `batch_map` no function.
    InvalidArgumentError
        If a value is not possible, or arguments do not go together.
    """
    if isinstance(dataset, str) or not (
        isinstance(dataset, IterableDataset) or hasattr(dataset, "__getitem__")
    ):
        raise ArgumentTypeError(
            f"a loader reads a dataset, found {dataset!r}: create one with StreamingDataset or "
            "open_dataset; a Spark converter has make_torch_dataloader"
        )
    if batch_size is not None:
        check_batch_size(batch_size)
    if isinstance(dataset, DatasetSamples):
        _check_order(options)
    if batch_map is not None:
        _check_batch_map(batch_map, batch_size, options)


def _check_order(options: Mapping[str, Any]) -> None:
    if given := [n for n in _SAMPLERS if options.get(n) not in (None, False)]:
        raise InvalidArgumentError(
            f"{', '.join(given)}: the order of the samples is that of the dataset. Shuffle with "
            "StreamingDataset(…, shuffle=True), select samples with its streams, and pass "
            "batch_size"
        )
    if not options.get("in_order", True):
        raise InvalidArgumentError(
            "in_order=False would let batches come in any order, so that no state could say "
            "which of them were delivered: leave it out"
        )


def _check_batch_map(batch_map: object, batch_size: object, options: Mapping[str, Any]) -> None:
    check_function("batch_map", batch_map)
    if batch_size is None:
        raise InvalidArgumentError(
            "batch_map gets a whole batch, and with batch_size=None there are no batches: pass a "
            "batch size, or change the samples in the dataset's __getitem__"
        )
    if options.get("collate_fn") is not None:
        raise InvalidArgumentError(
            "batch_map gets a whole batch and collate_fn a list of samples: pass only one of "
            "them. batch_map is far faster; a collate_fn may call it on the batch that it builds"
        )
