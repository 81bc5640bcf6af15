"""Values that lie in a shard with other bytes between them."""

from __future__ import annotations

import numpy as np


def as_bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def spread(values: list[bytes], gap: bytes = b"--") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lay values out with gaps between them: the bytes, the starts, the lengths."""
    lengths = np.array([len(value) for value in values], np.int64)
    starts = np.cumsum(lengths + len(gap)) - lengths
    return as_bytes(b"".join(gap + value for value in values) + gap), starts, lengths
