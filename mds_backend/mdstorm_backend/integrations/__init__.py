"""Hooks into training frameworks, for what their public contracts cannot say.

A hook wraps one function of a framework, and says which contract is missing and with which version
it was tried. It is put in when the framework loads that module, which nothing here does; where the
framework has no such function, nothing is wrapped. The loaders know nothing of frameworks.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from mdstorm_backend.base import when_loaded

#: The hook of each module that has one, by its name in `hooks`.
_HOOKS = {
    "accelerate": "hand_over_to_accelerate",
    "accelerate.accelerator": "hand_over_to_accelerate",
    "accelerate.data_loader": "hand_over_to_accelerate",
    "lightning.pytorch.loops.fetchers": "tell_what_was_fetched",
    "lightning.pytorch.loops.fit_loop": "restore_in_lightning",
    "pytorch_lightning.loops.fetchers": "tell_what_was_fetched",
    "pytorch_lightning.loops.fit_loop": "restore_in_lightning",
    "ray.train.torch.train_loop_utils": "tell_what_was_fetched",
    "transformers.trainer": "hand_over_to_accelerate",
}


def install() -> None:
    """Put in the hooks of frameworks that are loaded, and of others when they are."""
    when_loaded(_HOOKS, _put_in)


def _put_in(module: ModuleType) -> None:
    hooks = importlib.import_module(f"{__name__}.hooks")
    getattr(hooks, _HOOKS[module.__name__])(module)
