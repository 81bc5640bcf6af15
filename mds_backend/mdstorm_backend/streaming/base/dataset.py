"""The mirror of ``streaming.base.dataset``."""

from __future__ import annotations

from mdstorm_backend.base import require

require("torch")

from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset  # noqa: E402

__all__ = ["StreamingDataset"]
