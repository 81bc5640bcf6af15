"""Hooks into Accelerate: our loaders prepare themselves, and skip batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mdstorm_backend.base import wrap


def hand_over_to_accelerate(module: ModuleType) -> None:
    """Let our loaders prepare themselves before Accelerate splits their data among processes.

    Accelerate gives each process a part of a loader's data. Its API does not provide for loaders
    that read only their own process's share. It checks whether a loader has already been prepared,
    but does not let a loader prepare itself, and does not pass it the device or how to split
    batches. So this wraps ``accelerate.data_loader.prepare_data_loader``, the documented function
    with which ``Accelerator.prepare`` makes its loaders and whose arguments include both.

    ``skip_first_batches`` makes a new loader over a loader's dataset, and mistakes the length of
    the dataset for a number of batches. So this also wraps that function, and our loaders skip
    batches themselves. Tested with Accelerate 1.15.
    """
    wrap(module, "prepare_data_loader", _handing_over)
    wrap(module, "skip_first_batches", _letting_skip)


def _handing_over(prepare: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(prepare)

    def prepare_data_loader(*args: Any, **kwargs: Any) -> Any:
        from mdstorm_backend.integrations.prepared_loader import prepared

        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        loader = prepared(bound.arguments)
        return prepare(*args, **kwargs) if loader is None else loader

    return prepare_data_loader


def _letting_skip(skip: Callable[..., Any]) -> Callable[..., Any]:
    def skip_first_batches(dataloader: Any, num_batches: int = 0) -> Any:
        skipping = getattr(dataloader, "mdstorm_skipping", None)
        return skip(dataloader, num_batches) if skipping is None else skipping(num_batches)

    return skip_first_batches
