"""Let Accelerate hand loaders over before it splits them among its processes.

Accelerate gives each process a part of what a loader reads. It has no contract for loaders that
read the share of their process themselves: it asks whether a loader was prepared before, but not
who could do so, and tells it neither the device nor how batches are to be split. So this wraps
``accelerate.data_loader.prepare_data_loader``, the documented function by which
``Accelerator.prepare`` makes its loaders, which is given all that.

``skip_first_batches`` makes a loader over the dataset of another one, and takes the length of that
for a number of batches. So it is wrapped as well: what was prepared here skips by itself. Tried
with Accelerate 1.15.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mdstorm_backend.base import wrap


def put_in(module: ModuleType) -> None:
    """Wrap the functions in their module, or in one that has imported them."""
    wrap(module, "prepare_data_loader", _handing_over)
    wrap(module, "skip_first_batches", _letting_skip)


def _handing_over(prepare: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(prepare)

    def prepare_data_loader(*args: Any, **kwargs: Any) -> Any:
        from mdstorm_backend.integrations.accelerate_share import prepared

        wanted = signature.bind(*args, **kwargs)
        wanted.apply_defaults()
        loader = prepared(wanted.arguments)
        return prepare(*args, **kwargs) if loader is None else loader

    return prepare_data_loader


def _letting_skip(skip: Callable[..., Any]) -> Callable[..., Any]:
    def skip_first_batches(dataloader: Any, num_batches: int = 0) -> Any:
        skipping = getattr(dataloader, "mdstorm_skipping", None)
        return skip(dataloader, num_batches) if skipping is None else skipping(num_batches)

    return skip_first_batches
