"""MosaicML Streaming's modules over this engine: `streaming.x` is `mdstorm_backend.streaming.x`.

Code changes its imports, or calls `mdstorm_backend.install_as_streaming` and changes nothing. The
modules re-export what other rooms hold. What is absent raises an ImportError that says where
docs/mosaicml.md speaks of it.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from mdstorm_backend.drop_in.absent import ABSENT

if TYPE_CHECKING:
    from mdstorm_backend.streaming import text, vision
    from mdstorm_backend.streaming.base import (
        LocalDataset,
        MDSWriter,
        Stream,
        StreamingDataLoader,
        StreamingDataset,
    )

__all__ = [
    "LocalDataset",
    "MDSWriter",
    "Stream",
    "StreamingDataLoader",
    "StreamingDataset",
    "text",
    "vision",
]

#: The release whose API this is.
__version__ = "0.13.0"

_MODULES = ("base", "text", "vision")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in __all__:
        return getattr(importlib.import_module(f"{__name__}.base"), name)
    raise ABSENT.error(__name__, name, sys._getframe(1))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
