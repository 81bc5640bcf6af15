"""`Iteration`: the user's iterator over batches, for one thread at a time."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

from mdstorm_backend.errors import ConcurrentIterationError

_Item = TypeVar("_Item")


class Iteration(Iterator[_Item]):
    """The user's iterator over batches, which detects concurrent use by two threads."""

    def __init__(self, generator: Generator[_Item, None, None]) -> None:
        self._generator = generator

    def __next__(self) -> _Item:
        try:
            # Python handles Ctrl-C after a call, such as next(): the batch would be lost, since the
            # position is already past it. A `for` statement makes no such call.
            for item in self._generator:
                return item
        except ValueError as error:
            _raise_if_in_use(error)
            raise
        raise StopIteration

    def close(self) -> None:
        """End the iteration.

        Raises
        ------
        ConcurrentIterationError
            If another thread is waiting for a batch.
        """
        try:
            self._generator.close()
        except ValueError as error:
            _raise_if_in_use(error)
            raise


def _raise_if_in_use(error: ValueError) -> None:
    # The other thread may no longer be inside the generator, so only the error's text identifies
    # the cause.
    if str(error) == "generator already executing":
        raise ConcurrentIterationError(
            "another thread is using this iterator. Let one thread iterate and pass its batches "
            "on through a queue.Queue, hold a threading.Lock around next() and close(), or call "
            "iter(loader) in each thread, which then reads all rows"
        ) from error
