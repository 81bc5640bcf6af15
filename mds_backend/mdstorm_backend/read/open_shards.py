"""Keep the open shards of a dataset."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar
from weakref import WeakSet, WeakValueDictionary

from mdstorm_backend.read.shard import Shard

_Shard = TypeVar("_Shard", bound=Shard)

#: Shards in memory that stay open when nobody uses them; more of them as long as they are small.
_KEPT = 4
_KEPT_BYTES = 64 << 20
#: Mapped shards that stay open. A map costs next to nothing but a file descriptor, of which most
#: systems allow a process 1,024.
_KEPT_MAPPED = 256


class OpenShards(Generic[_Shard]):
    """Opens each shard once for all who use it at a time. Safe to share between threads.

    Different shards are opened in parallel: the lock is never held while one is read. A shard that
    somebody still holds is found again, however many were opened since; beyond that the last few
    are kept, and some hundred of those that are mapped.

    Parameters
    ----------
    kept_mapped : int
        How many mapped shards are kept.
    kept, kept_bytes : int
        How many shards in memory are kept in any case, and how many bytes of them otherwise.
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
        """Begin anew: in a forked child the lock may be held by a thread that is not there."""
        self._lock = threading.Lock()
        self._opening: dict[int, Future[_Shard]] = {}
        self._alive: WeakValueDictionary[int, _Shard] = WeakValueDictionary()
        #: Those that are kept, to be found without the lock.
        self._at_hand: dict[int, _Shard] = {}
        #: Their numbers and bytes in memory, the first opened first.
        self._in_memory: OrderedDict[int, int] = OrderedDict()
        self._mapped: OrderedDict[int, int] = OrderedDict()
        self._bytes = 0

    def at_hand(self, number: int) -> _Shard | None:
        """Return shard `number` if it is open and kept, in no time."""
        return self._at_hand.get(number)

    def find(self, number: int) -> _Shard | None:
        """Return shard `number` if it is open."""
        return self._at_hand.get(number) or self._alive.get(number)

    def get(self, number: int, open_shard: Callable[[int], _Shard]) -> _Shard:
        """Return shard `number`, by `open_shard` unless it is open."""
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
        if is_mine:
            self._open(number, open_shard, result)
        return result.result()

    def release(self) -> None:
        """Keep none of them any longer; one that somebody holds stays open until they let go."""
        with self._lock:
            self._at_hand.clear()
            self._in_memory.clear()
            self._mapped.clear()
            self._bytes = 0

    def _open(
        self, number: int, open_shard: Callable[[int], _Shard], result: Future[_Shard]
    ) -> None:
        try:
            shard = open_shard(number)
        except BaseException as error:
            with self._lock:
                del self._opening[number]
            result.set_exception(error)
            return
        with self._lock:
            del self._opening[number]
            self._alive[number] = shard
            self._keep(number, shard)
        result.set_result(shard)

    def _keep(self, number: int, shard: _Shard) -> None:
        if number in self._at_hand:
            return
        self._at_hand[number] = shard
        kept = self._in_memory if shard.memory else self._mapped
        kept[number] = shard.memory
        self._bytes += shard.memory
        while self._are_too_many(kept):
            oldest, memory = kept.popitem(last=False)
            self._bytes -= memory
            del self._at_hand[oldest]

    def _are_too_many(self, kept: OrderedDict[int, int]) -> bool:
        if kept is self._mapped:
            return len(kept) > self._kept_mapped
        return len(kept) > self._kept and self._bytes > self._kept_bytes


_instances: WeakSet[OpenShards[Any]] = WeakSet()


def _renew_all() -> None:
    for shards in _instances:
        shards._renew()


os.register_at_fork(after_in_child=_renew_all)
