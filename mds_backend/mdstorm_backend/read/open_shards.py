"""Keep the shards of a dataset open, and open shards ahead of use, in the order of use."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar
from weakref import WeakSet, WeakValueDictionary

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.base.threads import OrderedPool, PoolContext
from mdstorm_backend.read.block import Block, Opened
from mdstorm_backend.read.shard import Shard

_Shard = TypeVar("_Shard", bound=Shard)

#: Unused shards in memory that stay open; more of them while their total size is small.
_KEPT = 4
_KEPT_BYTES = 64 << 20
#: Mapped shards that stay open. Each costs little but a file descriptor, of which most systems
#: allow a process 1,024.
_KEPT_MAPPED = 256


class OpenShards(Generic[_Shard]):
    """Opens each shard once for all concurrent users. Thread-safe.

    Different shards are opened in parallel: the lock is never held while one is read. A shard that
    is still referenced is always found again; besides, the last few in memory and a few hundred
    mapped ones are kept.

    Parameters
    ----------
    kept_mapped : int
        Number of mapped shards to keep.
    kept, kept_bytes : int
        Number of shards in memory to keep; more are kept up to so many bytes in total.
    """

    def __init__(
        self,
        kept_mapped: int = _KEPT_MAPPED,
        *,
        kept: int = _KEPT,
        kept_bytes: int = _KEPT_BYTES,
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
        #: Kept shards, found without the lock.
        self._at_hand: dict[int, _Shard] = {}
        #: Numbers of kept shards and their bytes in memory, oldest first.
        self._in_memory: OrderedDict[int, int] = OrderedDict()
        self._mapped: OrderedDict[int, int] = OrderedDict()
        self._bytes = 0

    def at_hand(self, number: int) -> _Shard | None:
        """Return shard `number` if it is kept, without locking; else None."""
        return self._at_hand.get(number)

    def find(self, number: int) -> _Shard | None:
        """Return shard `number` if it is open, else None."""
        return self._at_hand.get(number) or self._alive.get(number)

    def get(self, number: int, open_shard: Callable[[int], _Shard]) -> _Shard:
        """Return shard `number`, calling `open_shard` if it is not open."""
        shard = self._at_hand.get(number)
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

    def release(self) -> None:
        """Stop keeping shards; one that is still referenced stays open until it is released."""
        with self._lock:
            self._at_hand.clear()
            self._in_memory.clear()
            self._mapped.clear()
            self._bytes = 0

    def _keep(self, number: int, shard: _Shard) -> None:
        if number in self._at_hand:
            return
        self._at_hand[number] = shard
        kept = self._in_memory if shard.memory else self._mapped
        kept[number] = shard.memory
        self._bytes += shard.memory
        is_in_memory = kept is self._in_memory
        most = self._kept if is_in_memory else self._kept_mapped
        while len(kept) > most and (not is_in_memory or self._bytes > self._kept_bytes):
            oldest, memory = kept.popitem(last=False)
            self._bytes -= memory
            del self._at_hand[oldest]


_instances: WeakSet[OpenShards[Any]] = WeakSet()


def _renew_all() -> None:
    """Close all shards in a forked child, which lacks the threads that hold locks."""
    for shards in _instances:
        shards._renew()


os.register_at_fork(after_in_child=_renew_all)

#: Threads that open shards; they mostly wait for a disk or a network.
OPENING_THREADS = 64
#: No further shards are requested while this many are being opened, or once this many were mapped
#: since the last block.
_MANY = 64
_MANY_MAPPED = 32


class ShardsAhead(PoolContext):
    """Opens the shards of blocks before they are used.

    Parameters
    ----------
    open_shard : callable
        Opens a shard by its number and prepares it for reading.
    find : callable
        Returns the shard of a number if it is open, else None.
    ahead : int
        How many samples ahead of use shards are requested.
    threads : bool
        Whether to open shards in threads. Not worth it if opening only maps a file.
    recorder : Recorder, optional
        Records the work done, and the time spent waiting for it.
    """

    def __init__(
        self,
        open_shard: Callable[[int], Shard],
        find: Callable[[int], Shard | None],
        ahead: int,
        *,
        threads: bool,
        recorder: Recorder | None = None,
    ) -> None:
        self._recorder = recorder
        #: Opens a shard in this thread; `_task` does so in the pool.
        self._open_shard = open_shard if recorder is None else recorder.called(open_shard)
        self._task: Callable[[int], Any] = (
            open_shard if recorder is None else recorder.task(open_shard)
        )
        self._find = find
        self._ahead = ahead
        #: Shards being opened, kept alive by the blocks that wait for them.
        self._under_way: WeakValueDictionary[int, Future[Any]] = WeakValueDictionary()
        #: Shards opened without threads since the last block was yielded.
        self._opened = 0
        self._pool = (
            OrderedPool(OPENING_THREADS, thread_name_prefix="mdstorm-open") if threads else None
        )

    def __call__(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield blocks in order, while the shards of the following ones are being opened."""
        waiting: deque[tuple[int, Block]] = deque()
        samples = 0
        for block in blocks:
            for part in block.parts:
                part.shards = [self._begin(n, part.kept) for n in part.shard_numbers]
                part.recorder = self._recorder
            rows = sum(block.sizes)
            waiting.append((rows, block))
            samples += rows
            # Do not wait for many shards: the first samples should arrive soon.
            while waiting and (samples - waiting[0][0] >= self._ahead or self._are_many()):
                rows, first = waiting.popleft()
                samples -= rows
                yield first
        while waiting:  # blocks are released as they are used
            yield waiting.popleft()[1]

    def _are_many(self) -> bool:
        if self._pool is None:
            many, self._opened = self._opened >= _MANY_MAPPED, 0
            return many
        return len(self._under_way) >= _MANY and (
            sum(not future.done() for future in self._under_way.values()) >= _MANY
        )

    def _begin(self, number: int, kept: Opened | None) -> Shard | Future[Any]:
        found = None if kept is None else kept.get(number)
        if found is None:
            found = self._find(number) or self._under_way.get(number) or self._open(number)
            if kept is not None:
                kept[number] = found
        return found

    def _open(self, number: int) -> Shard | Future[Any]:
        if self._pool is None:
            self._opened += 1
            return self._open_shard(number)
        found = self._under_way[number] = self._pool.submit(self._task, number)
        return found
