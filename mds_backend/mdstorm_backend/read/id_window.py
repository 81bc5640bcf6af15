"""A window of samples given by number, in any order and with repetitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.read.shard import Shard
from mdstorm_backend.read.window import Located, Selection, record_dtype_of, short_type

Ids = npt.NDArray[np.int64]


class IdWindow:
    """Samples of a dataset by number.

    Parameters
    ----------
    ids : numpy.ndarray
        int64, the numbers of the samples in their order.
    bounds : numpy.ndarray
        int64, number of the first sample of each shard, and of all samples.

    Attributes
    ----------
    shard_numbers : list of int
        The shards that hold the samples, ascending.
    shards : mapping of int to Shard or Future
        Those shards, open or under way; to be set before anything is selected.
    recorder : Recorder or None
        Records who waits for them.
    """

    def __init__(self, ids: Ids, bounds: Ids) -> None:
        self._ids = ids
        owners = np.searchsorted(bounds, ids, side="right") - 1
        present = np.flatnonzero(np.bincount(owners, minlength=1))
        self.shard_numbers: list[int] = present.tolist()
        self._firsts = bounds[present]
        # Numbered anew, in a type whose stable sort is a radix sort.
        places = np.empty(int(present[-1]) + 1 if len(present) else 0, short_type(len(present)))
        places[present] = np.arange(len(present))
        self._owners = places[owners]
        self.shards: Mapping[int, Shard | Future[Any]] = {}
        self.recorder: Recorder | None = None

    def __len__(self) -> int:
        return len(self._ids)

    @cached_property
    def record_dtype(self) -> np.dtype[np.void] | None:
        """Dtype of a sample if all shards hold records of one dtype, else None."""
        return record_dtype_of(self._opened)

    def numbers(self, start: int, stop: int) -> Ids:
        """Numbers in the dataset of the rows `start` to `stop`."""
        return self._ids[start:stop]

    def select(self, start: int, stop: int, position: int) -> Iterator[Selection]:
        """Say where the rows `start` to `stop` lie, to be put at `position` of a block."""
        return self.located(start, stop).selections(position)

    def located(self, start: int, stop: int) -> Located:
        """Say where the rows `start` to `stop` lie, and wait for those that are on their way."""
        # Only now: many windows wait for their shards, and are to take little memory.
        owners = self._owners[start:stop]
        rows = self._ids[start:stop] - self._firsts[owners]
        for number, shard in self._begun:
            shard.wait_for(int(rows.max(initial=-1, where=owners == number)) + 1)
        return Located(self._opened, owners, rows)

    def opened(self) -> IdWindow:
        """Wait for the shards, and return this window.

        Raises
        ------
        MDStormError
            If one cannot be opened.
        """
        _ = self._opened
        return self

    @cached_property
    def _opened(self) -> list[Shard]:
        return [self._result(self.shards[number]) for number in self.shard_numbers]

    def _result(self, shard: Shard | Future[Any]) -> Shard:
        if not isinstance(shard, Future):
            return shard
        found: Shard = shard.result() if self.recorder is None else self.recorder.result(shard)
        return found

    @cached_property
    def _begun(self) -> list[tuple[int, Shard]]:
        return [(n, shard) for n, shard in enumerate(self._opened) if shard.arrival]
