"""`UsedBatches`: how many batches all iterations over a loader have used."""

from __future__ import annotations

from dataclasses import dataclass

from mdstorm_backend.loaders.consumer import Usage


@dataclass(eq=False)
class UsedBatches:
    """Counts the batches that a loader has used.

    The batches of a peek come again, so they stop counting once it was left, or another iteration
    has begun. An instance refers to no data, so that it can outlive the loader.

    A *mark* has two counts: batches, and iterations whose batches are not known.
    """

    #: The mark where the latest iteration began.
    _before: tuple[int, int] = (0, 0)
    _latest: Usage | None = None
    #: The mark where a state was loaded last, and how often one had been loaded then.
    _loaded: tuple[int, int] = (0, 0)
    _loads: int = 0

    def begin(self, usage: Usage) -> None:
        """Record that an iteration has begun."""
        self._before, self._latest = self._without_peek, usage
        if usage.loads != self._loads:
            self._loads, self._loaded = usage.loads, self._before

    def resume(self, usage: Usage) -> None:
        """Record that an earlier iteration is about to take another batch."""
        batches, unknown = self._without_peek
        self._before, self._latest = (batches - usage.batches_used, unknown), usage

    @property
    def mark(self) -> tuple[int, int]:
        """What has been used so far."""
        latest = self._latest
        return self._before if latest is None or latest.is_left_peek else self._with(latest)

    @property
    def _without_peek(self) -> tuple[int, int]:
        """What has been used when another iteration begins."""
        latest = self._latest
        return self._before if latest is None or latest.is_peek else self._with(latest)

    def _with(self, usage: Usage) -> tuple[int, int]:
        batches, unknown = self._before
        used = usage.batches_used if usage.count is None else usage.count()
        return (batches, unknown + 1) if used is None else (batches + used, unknown)

    def since(self, mark: tuple[int, int]) -> int | None:
        """Return the number of batches used since a mark; None if it is not known."""
        batches, unknown = self.mark
        return max(batches - mark[0], 0) if unknown == mark[1] else None

    def since_load(self, loads: int) -> int | None:
        """Return the number of batches used since a state was loaded, for the `loads`-th time."""
        return self.since(self._loaded) if loads == self._loads else 0
