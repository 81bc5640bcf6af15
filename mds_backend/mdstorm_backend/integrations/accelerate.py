"""Let Accelerate hand loaders over before it splits them among its processes.

Accelerate gives each process a part of what a loader reads. It has no contract for loaders that
read the share of their process themselves: it asks whether a loader was prepared before, but not
who could do so, and tells it neither the device nor how batches are to be split. So this wraps
``accelerate.data_loader.prepare_data_loader``, the documented function by which
``Accelerator.prepare`` makes its loaders, which is given all that. Tried with Accelerate 1.15.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from mdstorm_backend.drop_in import wrap


def put_in(module: ModuleType) -> None:
    """Wrap the function in its module, or in the one that has imported it."""
    wrap(module, "prepare_data_loader", _handing_over)


def _handing_over(prepare: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(prepare)

    def prepare_data_loader(*args: Any, **kwargs: Any) -> Any:
        from mdstorm_backend.integrations.accelerate_share import prepared

        loader = prepared(**signature.bind(*args, **kwargs).arguments)
        return prepare(*args, **kwargs) if loader is None else loader

    return prepare_data_loader
