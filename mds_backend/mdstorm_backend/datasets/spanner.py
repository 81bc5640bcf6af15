"""`Spanner`: finds samples among shards."""

from __future__ import annotations

from typing import Protocol


class _Located(Protocol):
    def locate(self, i: int) -> tuple[int, int]: ...


class Spanner:
    """Finds the shard and the row of a sample.

    Parameters
    ----------
    dataset : object
        Has the samples.
    """

    def __init__(self, dataset: _Located) -> None:
        self._dataset = dataset

    def __getitem__(self, index: int) -> tuple[int, int]:
        return self._dataset.locate(index)
