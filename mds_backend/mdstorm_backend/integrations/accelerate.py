"""Let Accelerate hand loaders over before it splits them among its processes.

Accelerate gives each process a part of what a loader reads. It has no contract for loaders that
read the share of their process themselves: it asks whether a loader was prepared before, but not
who could do so, and tells it neither the device nor how batches are to be split. So this wraps
``accelerate.data_loader.prepare_data_loader``, the documented function by which
``Accelerator.prepare`` makes its loaders, which is given all that. Tried with Accelerate 1.15.
"""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any

_PREPARE = "prepare_data_loader"


def put_in(module: ModuleType) -> None:
    """Wrap the function in its module, or in the one that has imported it."""
    prepare = getattr(module, _PREPARE, None)
    if prepare is None or hasattr(prepare, "_is_of_mdstorm"):
        return
    signature = inspect.signature(prepare)

    @functools.wraps(prepare)
    def prepare_data_loader(*args: Any, **kwargs: Any) -> Any:
        from mdstorm_backend.loaders.torch.accelerate_hook import prepared

        wanted = signature.bind(*args, **kwargs)
        wanted.apply_defaults()
        loader = prepared(**wanted.arguments)
        return prepare(*args, **kwargs) if loader is None else loader

    prepare_data_loader._is_of_mdstorm = True  # type: ignore[attr-defined]
    setattr(module, _PREPARE, prepare_data_loader)
