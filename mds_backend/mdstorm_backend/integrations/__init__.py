"""Hooks into Accelerate, Lightning and Ray Train, where their public APIs do not suffice.

A hook wraps one function of a framework. Its docstring describes the gap in the framework's API,
and with which version the hook was tried. `install` applies a hook once a program has loaded the
module that it wraps, and loads no framework itself. If the framework has no such function, nothing
is wrapped. The loaders know nothing about frameworks.
"""

from __future__ import annotations

from mdstorm_backend.integrations.hooks import install, load_position

__all__ = ["install", "load_position"]
