"""`Spanner`: finds samples among shards."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


class Spanner:
    """Finds the shard and the row of a sample.

    Parameters
    ----------
    shard_sizes : numpy.ndarray of int64
        Number of samples in each shard.
    span_size : int
        Accepted as MosaicML Streaming's, and not needed: the search is binary.

    Attributes
    ----------
    num_samples : int
        Number of samples in all shards.
    shard_bounds : numpy.ndarray of int64
        Number of the first sample of each shard, and of all samples.
    """

    def __init__(self, shard_sizes: Counts, span_size: int = 1 << 10) -> None:
        self.shard_sizes, self.span_size = shard_sizes, span_size
        self.shard_bounds: Counts = np.cumsum([0, *shard_sizes], dtype=np.int64)
        self.num_samples = int(self.shard_bounds[-1])

    def __getitem__(self, index: int) -> tuple[int, int]:
        """Return the number of a sample's shard, and its row there.

        Raises
        ------
        IndexError
            If there is no such sample; a negative number is none.
        """
        if not 0 <= index < self.num_samples:
            raise IndexError(f"Invalid sample index {index}: there are {self.num_samples} samples")
        shard = int(np.searchsorted(self.shard_bounds, index, side="right")) - 1
        return shard, int(index - self.shard_bounds[shard])
