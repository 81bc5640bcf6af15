"""Hooks into Accelerate, Lightning and Ray Train, where their public APIs do not suffice.

A hook wraps one framework function. Its docstring describes the gap in the framework's API and the
version that the hook was tested with. `install` applies a hook once a program has loaded the module
that the hook wraps, and does not load any framework itself. If the framework does not have the
function, nothing is wrapped. The loaders know nothing about frameworks.
"""

from __future__ import annotations

from mdstorm_backend.integrations.hooks import install
from mdstorm_backend.integrations.lightning import load_position

__all__ = ["install", "load_position"]
