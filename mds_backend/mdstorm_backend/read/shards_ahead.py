"""Open shards ahead of use, in threads and in the order of use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from weakref import WeakValueDictionary

from mdstorm_backend.base.pass_threads import PoolContext
from mdstorm_backend.read.id_window import IdWindow
from mdstorm_backend.read.shard import Shard

#: Threads that open shards: most of their time they wait for a disk or a network.
_THREADS = 8
#: As long as so many are not open yet no further ones are asked for.
_MANY = 32


class OpeningWindow:
    """A window whose shards are open or under way."""

    def __init__(self, window: IdWindow, shards: dict[int, Shard | Future[Shard]]) -> None:
        self._window = window
        self._shards = shards

    def __len__(self) -> int:
        return len(self._window)

    def opened(self) -> IdWindow:
        """Wait for the shards.

        Raises
        ------
        MDStormError
            If one cannot be opened.
        """
        if not self._window.shards:
            self._window.shards = {
                number: shard.result() if isinstance(shard, Future) else shard
                for number, shard in self._shards.items()
            }
        return self._window


class ShardsAhead(PoolContext):
    """Opens the shards of windows before they are used.

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
    """

    def __init__(
        self,
        open_shard: Callable[[int], Shard],
        find: Callable[[int], Shard | None],
        ahead: int,
        *,
        threads: bool,
    ) -> None:
        self._open_shard = open_shard
        self._find = find
        self._ahead = ahead
        #: Kept by the windows that wait for them.
        self._under_way: WeakValueDictionary[int, Future[Shard]] = WeakValueDictionary()
        #: Shards opened since the last window was yielded, without threads.
        self._opened = 0
        self._pool = (
            ThreadPoolExecutor(_THREADS, thread_name_prefix="mdstorm-open") if threads else None
        )

    def __call__(self, windows: Iterable[IdWindow]) -> Iterator[OpeningWindow]:
        """Yield the windows in their order, the shards of those that follow under way."""
        waiting: deque[OpeningWindow] = deque()
        samples = 0
        for window in windows:
            waiting.append(OpeningWindow(window, {n: self._begin(n) for n in window.shard_numbers}))
            samples += len(window)
            # Many shards are not waited for: the first samples are to be there soon.
            while waiting and (samples - len(waiting[0]) >= self._ahead or self._are_many()):
                samples -= len(waiting[0])
                yield waiting.popleft()
        yield from waiting

    def _are_many(self) -> bool:
        if self._pool is None:
            many, self._opened = self._opened >= _MANY, 0
            return many
        return len(self._under_way) >= _MANY and (
            sum(not future.done() for future in self._under_way.values()) >= _MANY
        )

    def _begin(self, number: int) -> Shard | Future[Shard]:
        found = self._find(number) or self._under_way.get(number)
        if found is None and self._pool is None:
            self._opened += 1
            found = self._open_shard(number)
        elif found is None:
            assert self._pool is not None
            found = self._under_way[number] = self._pool.submit(self._open_shard, number)
        return found
