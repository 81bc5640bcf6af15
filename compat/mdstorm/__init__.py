"""Petastorm's API over MDS shards.

`mdstorm` mirrors `petastorm` module for module. Its names are loaded on first use: importing it
brings in neither pyspark nor a framework.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdstorm.errors import NoDataAvailableError
    from mdstorm.transform import TransformSpec

__all__ = ["NoDataAvailableError", "TransformSpec", "__version__"]

__version__ = "0.1.0"

_HOMES = {"NoDataAvailableError": "mdstorm.errors", "TransformSpec": "mdstorm.transform"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in ("errors", "spark", "transform"):
        return importlib.import_module(f"mdstorm.{name}")
    raise AttributeError(f"module 'mdstorm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
