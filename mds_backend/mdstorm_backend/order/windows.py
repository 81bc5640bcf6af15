"""`Windows`: how a lane is cut into windows of whole shards, within which rows are shuffled.

Petastorm's queue of Q rows slides over a lane; windows do not. Of windows that are cut evenly, as
many mix as much as that queue if each has 2 Q rows and a shard's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mdstorm_backend.order.chunk import Numbers


@dataclass(frozen=True)
class Windows:
    """Of how many rows windows are.

    Attributes
    ----------
    least : int
        Minimum number of rows in a window, except in the last one. 0: each shard is a window.
    queue : int
        Capacity of a queue, which windows replace; 0 for no queue.
    """

    least: int = 0
    queue: int = 0

    def ends(self, sizes: Numbers) -> Iterator[int]:
        """Yield the number of shards up to the end of each window.

        Parameters
        ----------
        sizes : numpy.ndarray
            int64, number of rows in the lane's part of each shard, at least one, in reading order.
        """
        ends = np.cumsum(sizes)
        if self.queue:
            yield from self._even_ends(ends)
            return
        begin = stop = 0
        while stop < len(ends):
            stop = max(int(np.searchsorted(ends, begin + self.least)), stop) + 1
            stop = min(stop, len(ends))
            yield stop
            begin = int(ends[stop - 1])

    def _even_ends(self, ends: Numbers) -> list[int]:
        """Return the ends of windows of about equal sizes that mix as much as the queue."""
        if not len(ends):
            return []
        rows, shards = int(ends[-1]), len(ends)
        count = max(rows * shards // (2 * self.queue * shards + rows), 1)
        size, longer = divmod(rows, count)
        numbers = np.arange(1, count + 1)
        cuts = numbers * size + numbers * longer // count
        found: list[int] = (np.unique(np.searchsorted(ends, cuts)) + 1).tolist()
        return found

    def parts(self, sizes: Numbers) -> tuple[Iterator[int], int]:
        """Return what to join into windows if functions leave out rows, and when to stop.

        Returns
        -------
        iterator of int
            The number of shards up to the end of each part that is not divided.
        int
            A window ends with the part in which its number of remaining rows reaches this number.
        """
        if self.queue:  # if no rows are left out, windows are those of `ends`
            return self.ends(sizes), 2 * self.queue
        return iter(range(1, len(sizes) + 1)), self.least
