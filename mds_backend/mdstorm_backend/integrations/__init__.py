"""Hooks into Accelerate, Lightning and Ray Train, where their public APIs do not suffice.

A hook wraps one function of a framework. Its docstring says what the framework's API lacks, and
with which version the hook was tried. `install` applies a hook once a program has loaded the module
that it wraps, and loads no framework itself. If the framework has no such function, nothing is
wrapped. The loaders know nothing about frameworks.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from mdstorm_backend.base import when_loaded

#: For each module that is hooked, the name of the hook in `hooks`.
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
    """Apply the hooks of frameworks that are loaded, and of others as soon as they are."""
    when_loaded(_HOOKS, _put_in)


def _put_in(module: ModuleType) -> None:
    hooks = importlib.import_module(f"{__name__}.hooks")
    getattr(hooks, _HOOKS[module.__name__])(module)
