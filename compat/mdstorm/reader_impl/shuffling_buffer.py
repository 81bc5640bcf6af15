"""Buffers that return their rows one at a time, in random order or in the order added."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

import numpy as np

from mdstorm.errors import ShufflingBufferError

__all__ = ["NoopShufflingBuffer", "RandomShufflingBuffer", "ShufflingBufferBase"]


class ShufflingBufferBase:
    """Base class for buffers, which can return items in a different order. Not thread-safe."""


class NoopShufflingBuffer(ShufflingBufferBase):
    """A buffer that returns items in the order they were added.

    Attributes
    ----------
    store : collections.deque
        The items.
    """

    def __init__(self) -> None:
        self.store: deque[Any] = deque()

    def add_many(self, items: Collection[Any]) -> None:
        """Add items to the end of the buffer."""
        self.store.extend(items)

    def retrieve(self) -> Any:
        """Remove and return the first item.

        Raises
        ------
        IndexError
            If the buffer is empty.
        """
        return self.store.popleft()

    def can_add(self) -> bool:
        """Return True, because the buffer is unbounded."""
        return True

    def can_retrieve(self) -> bool:
        """Whether the buffer contains any items."""
        return bool(self.store)

    @property
    def size(self) -> int:
        """Number of items in the buffer."""
        return len(self.store)

    def finish(self) -> None:
        """Do nothing, because all items can always be retrieved."""


class RandomShufflingBuffer(ShufflingBufferBase):
    """A buffer that returns random items, drawn by ``np.random.randint`` as in Petastorm.

    Parameters
    ----------
    shuffling_buffer_capacity : int
        Items can be added while the buffer contains fewer items than this.
    min_after_retrieve : int
        Items can be retrieved while the buffer contains at least this many, or after `finish`.
    extra_capacity : int
        Number of items by which a single `add_many` call can exceed the capacity.
    """

    def __init__(
        self, shuffling_buffer_capacity: int, min_after_retrieve: int, extra_capacity: int = 1000
    ) -> None:
        self._mdstorm_capacity = shuffling_buffer_capacity
        self._mdstorm_most = shuffling_buffer_capacity + extra_capacity
        self._mdstorm_least = min_after_retrieve
        self._items: list[Any] = []
        self._done_adding = False

    def add_many(self, items: Collection[Any]) -> None:
        """Add items to the buffer.

        Raises
        ------
        ShufflingBufferError
            If the buffer is full or finished, or the items exceed the extra capacity; also
            RuntimeError.
        """
        if self._done_adding:
            raise ShufflingBufferError(
                "Can not call add_many after finish() was called: make a new buffer for each pass"
            )
        if not self.can_add():
            raise ShufflingBufferError(
                f"Can not enqueue: {self.size} items reach the capacity. Retrieve some first; "
                "check can_add() first"
            )
        size = self.size + len(items)
        if size > self._mdstorm_most:
            raise ShufflingBufferError(
                "Attempt to enqueue more elements than the capacity allows. "
                f"Current size: {self.size}, new size {size}, maximum allowed: "
                f"{self._mdstorm_most}. Add fewer at a time, or raise extra_capacity"
            )
        self._items.extend(items)

    def retrieve(self) -> Any:
        """Remove and return a random item.

        Raises
        ------
        ShufflingBufferError
            If the buffer contains too few items; also RuntimeError.
        """
        if not self.can_retrieve():
            raise ShufflingBufferError(
                f"Can not dequeue from {self.size} items. Add more, or call finish() after the "
                "last ones; check can_retrieve() first"
            )
        items = self._items
        chosen = np.random.randint(0, len(items))  # noqa: NPY002  users seed it, as for Petastorm
        items[chosen], items[-1] = items[-1], items[chosen]
        return items.pop()

    def can_add(self) -> bool:
        """Whether the buffer is neither full nor finished."""
        return self.size < self._mdstorm_capacity and not self._done_adding

    def can_retrieve(self) -> bool:
        """Whether the buffer contains enough items or, after `finish`, any items."""
        return self.size >= (1 if self._done_adding else max(self._mdstorm_least, 1))

    @property
    def size(self) -> int:
        """Number of items in the buffer."""
        return len(self._items)

    def finish(self) -> None:
        """Allow all items to be retrieved, and do not allow any more to be added."""
        self._done_adding = True
