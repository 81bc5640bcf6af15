"""Which epoch a new loader begins with, after those of earlier loaders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mdstorm._readers.arguments import ReaderArguments
from mdstorm._readers.reading_order import seed_of
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
    on_pass : callable, optional
        Called with what is recorded.
    """

    def __init__(
        self,
        first: Callable[[], Usage] = Usage,
        on_pass: Callable[[Epochs], None] | None = None,
    ) -> None:
        self._first, self._on_pass = first, on_pass
        self._latest: Epochs | None = None

    def record(self, epochs: Epochs) -> None:
        """Record that an iteration over `epochs` began, or that it has loaded a state."""
        if epochs is not self._latest:
            least = self.following()
            self._first, self._latest = lambda: least, epochs
        if self._on_pass is not None:
            self._on_pass(epochs)

    def set_next(self, epoch: int) -> None:
        """Let the next loader begin with `epoch`."""
        self._first, self._latest = lambda: Usage(Position(epoch)), None

    def following(self) -> Usage:
        """Return the next loader's first iteration."""
        least = self._first()
        if self._latest is None:
            return least
        latest, following = self._latest.epoch_start, self._latest.following()
        # The next loader does not resume within an epoch.
        epoch = following.start.epoch + (following.start.consumed > 0)
        if epoch < least.start.epoch:
            return least
        is_later = latest is not None and epoch > latest.epoch
        return Usage(Position(epoch), is_first=following.is_first or is_later)


#: The loaders of each share that was read without a seed.
successions: dict[tuple[Any, ...], Succession] = {}


@dataclass(frozen=True)
class FirstEpoch:
    """The first epoch of a loader.

    Calling an instance when a pass begins records that pass, so that later loaders do not repeat
    its epochs.

    Attributes
    ----------
    share : tuple
        Identifies the data: URL, rank and world size.
    epoch : int
        The lower bound, which is the next epoch when the loader was created, possibly in another
        process.
    """

    share: tuple[Any, ...]
    epoch: int

    def __call__(self, epochs: Epochs) -> None:
        _succession_of(self.share).record(epochs)

    def following(self) -> Usage:
        """Return the first iteration of a loader that begins now."""
        found = _succession_of(self.share).following()
        own = Usage(Position(self.epoch))
        return own if self.epoch > found.start.epoch else found


def _succession_of(share: tuple[Any, ...]) -> Succession:
    return successions.setdefault(share, Succession())


def first_epoch(arguments: ReaderArguments, url: str) -> FirstEpoch | None:
    """Return the first epoch of a new loader for `url`; None for epoch 0.

    All shares that are read without a seed use the same default seed. Without a later first epoch,
    each loader would repeat the permutations of the previous one.
    """
    shuffles = arguments.shuffle_row_groups or arguments.shuffle_rows
    shuffles = shuffles or (arguments.shuffling_queue_capacity or 0) > 0
    if not (shuffles and arguments.is_share) or seed_of(arguments, is_shared=False) is not None:
        return None
    share = (url, arguments.cur_shard, arguments.shard_count)
    return FirstEpoch(share, _succession_of(share).following().start.epoch)
