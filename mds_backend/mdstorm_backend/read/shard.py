"""The `Shard` protocol, shards in memory, and a cache of open shards."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet, WeakValueDictionary

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import warn_user
from mdstorm_backend.format import Batch, num_rows, take_values
from mdstorm_backend.format.values.python_objects import python_objects
from mdstorm_backend.storage import Arrival, PinnedMap

#: Sample numbers within a shard: ascending, without duplicates.
Rows = npt.NDArray[np.int64]


class Shard(Protocol):
    """Samples that are stored and read together. Thread-safe.

    It is implemented by MDS shards and by row groups of Parquet files. Methods with a body are
    defaults for shards that derive from this class.
    """

    num_samples: int
    #: The file while its samples are still being downloaded; its header has arrived.
    arrival: Arrival | None = None
    #: The map that samples are copied from; None if they are in memory or in the shard cache.
    held: PinnedMap | None = None

    @property
    def memory(self) -> int:
        """Bytes held in memory; 0 for a mapped file."""
        return 0

    def wait_for(self, stop: int) -> None:
        """Wait until the samples before `stop` have arrived."""
        return

    def request(self, rows: Rows) -> Future[bool] | None:
        """Request the samples `rows` ahead of all earlier samples, if possible and worthwhile.

        Returns
        -------
        Future of bool or None
            Whether the samples have arrived: if not, use `wait_for`.
        """
        return None

    def will_need(self) -> None:
        """Advise the operating system to read ahead if the file is mapped."""
        return

    def make_ready(self, columns: Sequence[str], *, exact_nulls: bool = False) -> None:
        """Do one-time work for these columns ahead of use."""
        return

    def decoded(self, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch | None:
        """Return all samples like `read`, if they are decoded; callers must not modify them.

        Returns None for a shard whose samples are decoded on request.
        """
        return None

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Decode the given columns of the samples `rows` (ascending, without duplicates).

        The values are independent copies. With `exact_nulls`, a null in a floating-point column is
        a null in an Arrow array, not NaN.
        """

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample; by default all of its columns."""


_Shard = TypeVar("_Shard", bound=Shard)


class OpenShards(Generic[_Shard]):
    """Opens each shard once for all concurrent users. Thread-safe.

    Different shards are opened in parallel: the lock is never held while one is read. A shard that
    is still referenced is always found again; in addition, the last few in memory and a few hundred
    mapped ones are kept.

    Parameters
    ----------
    kept_mapped : int
        Number of mapped shards to keep. Each costs little more than a file descriptor, and most
        systems allow a process 1,024 of them.
    kept, kept_bytes : int
        Number of shards in memory to keep; more are kept up to this total number of bytes.
    """

    def __init__(
        self, kept_mapped: int = 256, *, kept: int = 4, kept_bytes: int = 64 << 20
    ) -> None:
        self._kept_mapped = kept_mapped
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._renew()
        _instances.add(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._opening: dict[int, Future[_Shard]] = {}
        self._alive: WeakValueDictionary[int, _Shard] = WeakValueDictionary()
        #: Kept shards, which are read without the lock.
        self.at_hand: dict[int, _Shard] = {}
        #: Numbers of kept shards and their bytes in memory, oldest first.
        self._in_memory: OrderedDict[int, int] = OrderedDict()
        self._mapped: OrderedDict[int, int] = OrderedDict()
        self._bytes = 0

    def find(self, number: int) -> _Shard | None:
        """Return shard `number` if it is open, else None."""
        return self.at_hand.get(number) or self._alive.get(number)

    def get(self, number: int, open_shard: Callable[[int], _Shard]) -> _Shard:
        """Return shard `number`, calling `open_shard` if it is not open."""
        shard = self.at_hand.get(number)
        if shard is not None:
            return shard
        with self._lock:
            shard = self._alive.get(number)
            if shard is not None:
                self._keep(number, shard)
                return shard
            result = self._opening.get(number)
            is_mine = result is None
            if result is None:
                result = self._opening[number] = Future()
        if not is_mine:
            return result.result()
        try:
            shard = open_shard(number)
        except BaseException as error:
            with self._lock:
                del self._opening[number]
            result.set_exception(error)
            raise
        with self._lock:
            del self._opening[number]
            self._alive[number] = shard
            self._keep(number, shard)
        result.set_result(shard)
        return shard

    def emptied(self) -> OpenShards[_Shard]:
        """Return one with the same limits that has no open shards."""
        return OpenShards(self._kept_mapped, kept=self._kept, kept_bytes=self._kept_bytes)

    def release(self) -> None:
        """Stop keeping shards; each one stays open while it is still referenced."""
        with self._lock:
            self.at_hand.clear()
            self._in_memory.clear()
            self._mapped.clear()
            self._bytes = 0

    def _keep(self, number: int, shard: _Shard) -> None:
        if number in self.at_hand:
            return
        self.at_hand[number] = shard
        kept = self._in_memory if shard.memory else self._mapped
        kept[number] = shard.memory
        self._bytes += shard.memory
        is_in_memory = kept is self._in_memory
        most = self._kept if is_in_memory else self._kept_mapped
        while len(kept) > most and (not is_in_memory or self._bytes > self._kept_bytes):
            oldest, memory = kept.popitem(last=False)
            self._bytes -= memory
            del self.at_hand[oldest]


_instances: WeakSet[OpenShards[Any]] = WeakSet()


def _renew_all() -> None:
    """Drop shards and locks in a forked child, which has no threads to release the locks."""
    for shards in _instances:
        shards._renew()


os.register_at_fork(after_in_child=_renew_all)


class MemoryShard(Shard):
    """A batch returned by a transform, as an in-memory shard.

    Parameters
    ----------
    batch : Batch
        The samples; kept, not copied.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.num_samples = num_rows(batch)

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Copy the given columns of the samples `rows`."""
        return {name: take_values(self.batch[name], rows) for name in columns}

    def decoded(self, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Return the given columns without copying."""
        return {name: self.batch[name] for name in columns}

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample; values are NumPy values or Python objects."""
        found: dict[str, Any] = {}
        for name, values in self.batch.items():
            if columns is not None and name not in columns:
                continue
            with python_objects(name, values[row : row + 1], row):
                found[name] = values[row] if isinstance(values, np.ndarray) else values[row].as_py()
        return found


def contiguous(rows: Rows) -> slice | None:
    """Return ascending `rows` as a slice, or None if they have gaps."""
    if len(rows) == 0:
        return slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else None


def warn_no_data(url: str, *, transformed: bool = False, dropped: bool = False) -> None:
    """Warn, as Petastorm does, that there is nothing to read."""
    reason = "the dataset has no rows"
    if transformed:
        reason = "the predicate or the transform left no rows in a whole epoch"
    elif dropped:
        reason = "no epoch has enough rows for a full batch, and drop_last omits smaller ones"
    warn_user(f"No matching data is available for loading in {url}: {reason}")
