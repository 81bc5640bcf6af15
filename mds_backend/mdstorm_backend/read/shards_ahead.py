"""Open shards ahead of use, in threads and in the order of use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any
from weakref import WeakValueDictionary

from mdstorm_backend.base.pass_threads import PoolContext
from mdstorm_backend.base.pools import OrderedPool
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.located import Opened
from mdstorm_backend.read.shard import Shard

#: Threads that open shards: most of their time they wait for a disk or a network.
OPENING_THREADS = 64
#: As long as so many are not open yet no further ones are asked for; or so many were, by mapping.
_MANY = 64
_MANY_MAPPED = 32


class ShardsAhead(PoolContext):
    """Opens the shards of blocks before they are used.

    Parameters
    ----------
    open_shard : callable
        Opens a shard by its number and makes it ready.
    find : callable
        Returns the shard of that number if it is open, else None.
    ahead : int
        So many samples before they are used their shards are asked for.
    threads : bool
        Whether threads open them. It is not worth it where that is no more than mapping a file.
    recorder : Recorder, optional
        Records what is done, and who waits for it.
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
        #: What opens a shard here, and in a thread.
        self._open_shard = open_shard if recorder is None else recorder.called(open_shard)
        self._task: Callable[[int], Any] = (
            open_shard if recorder is None else recorder.task(open_shard)
        )
        self._find = find
        self._ahead = ahead
        #: Kept by the blocks that wait for them.
        self._under_way: WeakValueDictionary[int, Future[Any]] = WeakValueDictionary()
        #: Shards opened since the last block was yielded, without threads.
        self._opened = 0
        self._pool = (
            OrderedPool(OPENING_THREADS, thread_name_prefix="mdstorm-open") if threads else None
        )

    def __call__(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield blocks in their order, with the shards of those that follow under way."""
        waiting: deque[tuple[int, Block]] = deque()
        samples = 0
        for block in blocks:
            for part in block.parts:
                part.shards = [self._begin(n, part.kept) for n in part.shard_numbers]
                part.recorder = self._recorder
            rows = sum(block.sizes)
            waiting.append((rows, block))
            samples += rows
            # Many shards are not waited for: the first samples are to be there soon.
            while waiting and (samples - waiting[0][0] >= self._ahead or self._are_many()):
                rows, first = waiting.popleft()
                samples -= rows
                yield first
        for _, block in waiting:
            yield block

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
