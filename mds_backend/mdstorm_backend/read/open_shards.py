"""The shards of a dataset that are open."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from weakref import WeakSet, WeakValueDictionary

from mdstorm_backend.read.mds_shard import MDSShard

__all__ = ["OpenShards"]

#: Shards that stay open when nobody uses them; compressed ones take memory.
_KEPT = 4


class OpenShards:
    """Opens each shard once for all who use it at a time. Safe to share between threads.

    Different shards are opened in parallel: the lock is never held while one is read. A shard that
    somebody still holds is found again, however many were opened since; beyond that the last few
    are kept.
    """

    def __init__(self) -> None:
        self._renew()
        _instances.add(self)

    def _renew(self) -> None:
        """Begin anew: in a forked child the lock may be held by a thread that is not there."""
        self._lock = threading.Lock()
        self._opening: dict[int, Future[MDSShard]] = {}
        self._alive: WeakValueDictionary[int, MDSShard] = WeakValueDictionary()
        self._kept: OrderedDict[int, MDSShard] = OrderedDict()

    def get(self, number: int, open_shard: Callable[[int], MDSShard]) -> MDSShard:
        """Return shard `number`, by `open_shard` unless it is open."""
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

    def _open(
        self, number: int, open_shard: Callable[[int], MDSShard], result: Future[MDSShard]
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

    def _keep(self, number: int, shard: MDSShard) -> None:
        self._kept[number] = shard
        self._kept.move_to_end(number)
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)


_instances: WeakSet[OpenShards] = WeakSet()


def _renew_all() -> None:
    for shards in _instances:
        shards._renew()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_renew_all)
