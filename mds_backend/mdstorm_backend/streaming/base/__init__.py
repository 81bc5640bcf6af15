"""The mirror of ``streaming.base``."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from mdstorm_backend.drop_in.absent import ABSENT

if TYPE_CHECKING:
    from mdstorm_backend.streaming.base.dataloader import StreamingDataLoader
    from mdstorm_backend.streaming.base.dataset import StreamingDataset
    from mdstorm_backend.streaming.base.format import MDSWriter
    from mdstorm_backend.streaming.base.local import LocalDataset
    from mdstorm_backend.streaming.base.stream import Stream

__all__ = ["LocalDataset", "MDSWriter", "Stream", "StreamingDataLoader", "StreamingDataset"]

#: Loaded on first use: some need PyTorch, and a program that only writes does not.
_HOMES = {
    "LocalDataset": "local",
    "MDSWriter": "format",
    "Stream": "stream",
    "StreamingDataLoader": "dataloader",
    "StreamingDataset": "dataset",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise ABSENT.error(__name__, name, sys._getframe(1))
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
