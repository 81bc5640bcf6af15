"""Shuffle batches of tensors: the mirror of ``petastorm.reader_impl.pytorch_shuffling_buffer``."""

from __future__ import annotations

from mdstorm._torch.batched_shuffling_buffer import (
    BatchedNoopShufflingBuffer,
    BatchedRandomShufflingBuffer,
    BatchedShufflingBufferBase,
)

__all__ = [
    "BatchedNoopShufflingBuffer",
    "BatchedRandomShufflingBuffer",
    "BatchedShufflingBufferBase",
]
