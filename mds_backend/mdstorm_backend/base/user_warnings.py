"""Warnings that point to the caller's own code."""

from __future__ import annotations

import sys
import warnings

_OURS = frozenset({"mdstorm", "mdstorm_backend", "mdstorm_migrate"})


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first frame outside our packages, however deep in them it comes from."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in _OURS
