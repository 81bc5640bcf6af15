"""`Consumer`: the code that takes an iteration's batches; `Usage`: how many it has used.

A loop uses each batch when it takes it. A training framework may skip batches, or may fetch a
batch or request the end while its user still holds the previous batch. A hook for the framework
describes this with a `Consumer`, and sets `CONSUMER` to it while the framework requests a batch. An
iteration keeps the consumer that requested its first batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from mdstorm_backend.order import Position

#: Maximum number of taken batches that are not used up: one in use, and one fetched ahead.
MOST_UNUSED = 2


@dataclass(eq=False)
class Consumer:
    """Describes when an iteration's batches are used, and how many of them may be a peek.

    Attributes
    ----------
    count_unused : callable, optional
        For a consumer that takes batches ahead of use; returns how many of the latest batches have
        not been used yet, at most `MOST_UNUSED`. By default, batches are used as they are taken.
    peek : int
        How many batches of an iteration may be used without using it up; 0 for a consumer that
        trains on each batch.
    skipped : int
        How many batches are skipped at the beginning of the iteration.
    has_used_end : bool
        Whether the end is used once it has been requested. A consumer that requests it ahead of use
        begins with False.
    """

    count_unused: Callable[[], int] | None = None
    peek: int = 1
    skipped: int = 0
    has_used_end: bool = True

    @property
    def num_unused(self) -> int:
        """How many of the latest batches were taken and have not been used yet."""
        return 0 if self.count_unused is None else self.count_unused()

    @property
    def most_peeked(self) -> int:
        """How many batches a peek may take: one that is taken ahead is not used."""
        return self.skipped + self.peek + (self.count_unused is not None)

    @contextmanager
    def requesting(self) -> Iterator[None]:
        """Return a context in which this consumer requests the batches of loaders."""
        token = CONSUMER.set(self)
        try:
            yield
        finally:
            CONSUMER.reset(token)


#: The consumer that is requesting a batch; by default, a loop that uses each batch as it takes it.
CONSUMER: ContextVar[Consumer] = ContextVar("CONSUMER", default=Consumer())  # noqa: B039


@dataclass(eq=False)
class Usage:
    """An iteration: where it begins, and how much of it has been used.

    Attributes
    ----------
    start : Position
        Where the iteration begins.
    is_first : bool
        Whether it may be a peek.
    number : int
        Number of the iteration among those over the dataset, from 1; 0 before it begins.
    changes, loads : int
        How often a state had been loaded or an epoch set, and how often a state had been loaded,
        when the iteration began.
    consumer : Consumer
        The code that takes the batches.
    batches : int
        Number of batches that have been taken.
    count : callable, optional
        Returns the number of used batches, or None if it is not known. By default, each batch that
        was taken is counted, except those that are not used yet.
    is_over : bool
        Whether the end was requested.
    is_left : bool
        Whether the iteration has ended: at its end, by an error, or because its iterator was
        closed, or nothing refers to it any more.
    is_resumed : bool
        Whether this is the first iteration after a state within an epoch was loaded.
    rows_left : int
        If it is, and was left within that epoch: the number of rows, on all ranks, that were not
        read; otherwise 0.
    """

    start: Position = Position()  # noqa: RUF009  # frozen
    is_first: bool = True
    number: int = 0
    changes: int = 0
    loads: int = 0
    consumer: Consumer = field(default_factory=Consumer)
    batches: int = 0
    count: Callable[[], int | None] | None = None
    is_over: bool = False
    is_left: bool = False
    is_resumed: bool = False
    rows_left: int = 0

    @property
    def batches_used(self) -> int:
        """Number of batches that have been taken and used."""
        return max(self.batches - self.consumer.num_unused, 0)

    @property
    def used(self) -> int:
        """The same, where the end counts like another batch."""
        return self.batches_used + (self.is_over and self.consumer.has_used_end)

    @property
    def is_peek(self) -> bool:
        """Whether the iteration is not used up."""
        if self.is_over and not self.batches:  # the rank has no rows
            return False
        consumer = self.consumer
        return self.used <= consumer.skipped + (consumer.peek if self.is_first else 0)

    @property
    def is_left_peek(self) -> bool:
        """Whether the iteration was a peek that has been left, so that it does not count."""
        return self.is_left and self.is_peek

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for another process, where nothing more is used."""
        consumer = replace(self.consumer, count_unused=None)
        used = {"batches": self.batches_used, "count": None, "consumer": consumer}
        return {**self.__dict__, **used}
