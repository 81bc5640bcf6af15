"""Hooks into training frameworks, for what their public contracts cannot say.

A hook wraps one function of a framework, and says which contract is missing and with which version
it was tried. It is put in when the framework loads that module, which nothing here does; where the
framework has no such function, nothing is wrapped. The loaders know nothing of frameworks.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from mdstorm_backend.base import when_loaded

#: The hook of each module that has one.
_HOOKS = {
    "accelerate": "accelerate",
    "accelerate.accelerator": "accelerate",
    "accelerate.data_loader": "accelerate",
    "lightning.pytorch.loops.fetchers": "fetched_ahead",
    "lightning.pytorch.loops.fit_loop": "lightning",
    "pytorch_lightning.loops.fetchers": "fetched_ahead",
    "pytorch_lightning.loops.fit_loop": "lightning",
    "ray.train.torch.train_loop_utils": "fetched_ahead",
    "transformers.trainer": "accelerate",
}


def install() -> None:
    """Put in the hooks of frameworks that are loaded, and of others when they are."""
    when_loaded(_HOOKS, _put_in)


def _put_in(module: ModuleType) -> None:
    importlib.import_module(f"{__name__}.{_HOOKS[module.__name__]}").put_in(module)
