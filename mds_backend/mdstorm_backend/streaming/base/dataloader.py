"""The mirror of ``streaming.base.dataloader``."""

from __future__ import annotations

from mdstorm_backend.base import require

require("torch")

from mdstorm_backend.loaders.torch.streaming_data_loader import StreamingDataLoader  # noqa: E402

__all__ = ["StreamingDataLoader"]
