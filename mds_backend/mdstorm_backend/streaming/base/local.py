"""The mirror of ``streaming.base.local``."""

from __future__ import annotations

from mdstorm_backend.base import require

require("torch")

from mdstorm_backend.loaders.torch.local_dataset import LocalDataset  # noqa: E402

__all__ = ["LocalDataset"]
