"""Buffers that return single rows in random order."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

import numpy as np

from mdstorm.errors import ShufflingBufferError

__all__ = ["NoopShufflingBuffer", "RandomShufflingBuffer", "ShufflingBufferBase"]


class ShufflingBufferBase:
    """Base of the buffers: items go in and come out in another order. For one thread only."""


class NoopShufflingBuffer(ShufflingBufferBase):
    """Items come out in the order in which they went in.

    Attributes
    ----------
    store : collections.deque
        The items.
    """

    def __init__(self) -> None:
        self.store: deque[Any] = deque()

    def add_many(self, items: Collection[Any]) -> None:
        """Add items at the end."""
        self.store.extend(items)

    def retrieve(self) -> Any:
        """Remove the first item, and return it.

        Raises
        ------
        IndexError
            If there is none.
        """
        return self.store.popleft()

    def can_add(self) -> bool:
        """Return True."""
        return True

    def can_retrieve(self) -> bool:
        """Whether there are items."""
        return bool(self.store)

    @property
    def size(self) -> int:
        """Number of items in the buffer."""
        return len(self.store)

    def finish(self) -> None:
        """Do nothing: all items can be removed anyway."""


class RandomShufflingBuffer(ShufflingBufferBase):
    """Items come out at random, drawn by ``np.random.randint`` as in Petastorm.

    Parameters
    ----------
    shuffling_buffer_capacity : int
        Items may be added while there are fewer inside.
    min_after_retrieve : int
        Items may be removed while there are as many inside, or after `finish`.
    extra_capacity : int
        By how many items a single `add_many` may exceed the capacity.
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
        """Add items.

        Raises
        ------
        ShufflingBufferError
            If the buffer is full or finished, or these are more than it may hold; also
            RuntimeError.
        """
        if self._done_adding:
            raise ShufflingBufferError(
                "Can not call add_many after finish() was called: make a new buffer for each pass"
            )
        if not self.can_add():
            raise ShufflingBufferError(
                f"Can not enqueue: {self.size} items reach the capacity. Retrieve some first; "
                "can_add() says whether more can be added"
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
        """Remove a random item, and return it.

        Raises
        ------
        ShufflingBufferError
            If too few are left; also RuntimeError.
        """
        if not self.can_retrieve():
            raise ShufflingBufferError(
                f"Can not dequeue from {self.size} items. Add more, or call finish() after the "
                "last ones; can_retrieve() says whether any are available"
            )
        items = self._items
        chosen = np.random.randint(0, len(items))  # noqa: NPY002  users seed it, as for Petastorm
        items[chosen], items[-1] = items[-1], items[chosen]
        return items.pop()

    def can_add(self) -> bool:
        """Whether the buffer is neither full nor finished."""
        return self.size < self._mdstorm_capacity and not self._done_adding

    def can_retrieve(self) -> bool:
        """Whether enough items are inside or, after `finish`, any."""
        return self.size >= (1 if self._done_adding else max(self._mdstorm_least, 1))

    @property
    def size(self) -> int:
        """Number of items in the buffer."""
        return len(self._items)

    def finish(self) -> None:
        """Allow all items to be removed: nothing will be added any more."""
        self._done_adding = True
