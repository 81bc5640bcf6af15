"""Shuffle single rows: the mirror of ``petastorm.reader_impl.shuffling_buffer``."""

from __future__ import annotations

from mdstorm._torch.shuffling_buffer import (
    NoopShufflingBuffer,
    RandomShufflingBuffer,
    ShufflingBufferBase,
)

__all__ = ["NoopShufflingBuffer", "RandomShufflingBuffer", "ShufflingBufferBase"]
