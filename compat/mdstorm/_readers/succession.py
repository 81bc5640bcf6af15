"""`Succession`: which epoch a new loader begins with, after those of earlier loaders."""

from __future__ import annotations

from collections.abc import Callable

from mdstorm_backend.loaders import Epochs, Usage
from mdstorm_backend.order import Position


class Succession:
    """Loaders that begin one after another, each with the epoch after those of the earlier ones.

    Loaders over a reader, and a converter's loaders without a seed, have a position each, but
    should not all read the permutations of the first epoch.

    Parameters
    ----------
    first : callable, optional
        Returns the first loader's first iteration; by default, it begins at the beginning.
    """

    def __init__(self, first: Callable[[], Usage] = Usage) -> None:
        self._first = first
        self._latest: Epochs | None = None

    def record(self, epochs: Epochs) -> None:
        """Record that an iteration over `epochs` began, or that it has loaded a state."""
        if epochs is not self._latest:
            least = self.following()
            self._first, self._latest = lambda: least, epochs

    def set_next(self, epoch: int) -> None:
        """Let the next loader begin with `epoch`."""
        self._first, self._latest = lambda: Usage(Position(epoch)), None

    def following(self) -> Usage:
        """Return the next loader's first iteration."""
        least = self._first()
        if self._latest is None:
            return least
        begun, following = self._latest.begun, self._latest.following()
        # The next loader does not resume within an epoch.
        epoch = following.start.epoch + (following.start.consumed > 0)
        if epoch < least.start.epoch:
            return least
        is_later = begun is not None and epoch > begun.epoch
        return Usage(Position(epoch), is_first=following.is_first or is_later)
