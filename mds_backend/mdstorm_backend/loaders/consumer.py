"""`Consumer`: describes the code that takes an iteration's batches, and when it uses them.

A loop uses each batch when it takes it. A training framework may skip batches, or may fetch a
batch or request the end while its user still holds the previous batch. A hook for the framework
describes this with a `Consumer`, and sets `CONSUMER` to it while the framework requests a batch. An
iteration keeps the consumer that requested its first batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

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
