"""`Consumer`: describes the code that takes an iteration's batches, and when it uses them.

A loop uses each batch when it takes it. A training framework may skip batches, or may fetch a
batch or request the end while its user still holds the previous batch. A hook for the framework
describes this with a `Consumer`, and sets `CONSUMER` to it while the framework requests a batch. A
pass keeps the consumer that requested its first batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Maximum number of taken batches that are not used up: one in use, and one fetched ahead.
MOST_UNUSED = 2


class Consumer:
    """Describes when an iteration's batches are used, and how many batches are more than a peek.

    Parameters
    ----------
    count_unused : callable, optional
        For a consumer that takes batches ahead of use; returns how many of the latest batches have
        not been used yet, at most `MOST_UNUSED`. By default, batches are used as they are taken.
    peek : int
        How many batches of an iteration may be taken without using it up; 0 for a consumer that
        trains on each batch.
    skipped : int
        How many batches are skipped at the beginning of each iteration.

    Attributes
    ----------
    peek, skipped
        As given.
    fetches_ahead : bool
        Whether a batch is fetched before the previous one has been used.
    """

    def __init__(
        self, count_unused: Callable[[], int] | None = None, *, peek: int = 1, skipped: int = 0
    ) -> None:
        self.peek, self.skipped = peek, skipped
        self.fetches_ahead = count_unused is not None
        self._count_unused = count_unused
        #: Two callbacks for each pass whose end was requested ahead of use: `use_end` calls the
        #: first one, and `leave` calls the second.
        self._held: list[tuple[Callable[[], None], Callable[[], None]]] = []

    @property
    def num_unused(self) -> int:
        """How many of the latest batches were taken and have not been used yet."""
        return 0 if self._count_unused is None else self._count_unused()

    @property
    def ends_ahead(self) -> bool:
        """Whether the end may be requested before the last batch has been used.

        A consumer that trains on each batch uses the last one in any case.
        """
        return self.fetches_ahead and self.peek > 0

    def hold_end(self, use: Callable[[], None], leave: Callable[[], None]) -> None:
        """Keep a pass whose end was requested open until `use_end` or `leave` is called."""
        self._held.append((use, leave))

    def use_end(self) -> None:
        """Record that the user has requested the end, so the pass is more than a peek."""
        for use, _ in self._held:
            use()
        self.leave()

    def leave(self) -> None:
        """Record that the user has left the iteration."""
        held, self._held = self._held, []
        for _, leave in held:
            leave()

    def counts_from(self, *, may_peek: bool) -> int:
        """Return the number of the batch that makes an iteration more than a peek."""
        return self.skipped + (self.peek if may_peek else 0) + 1

    @contextmanager
    def requesting(self) -> Iterator[None]:
        """Return a context in which this consumer requests the batches of loaders."""
        token = CONSUMER.set(self)
        try:
            yield
        finally:
            CONSUMER.reset(token)


#: The consumer for a loop that uses each batch as it takes it.
_LOOP = Consumer()
#: The consumer that is requesting a batch.
CONSUMER: ContextVar[Consumer] = ContextVar("CONSUMER", default=_LOOP)
