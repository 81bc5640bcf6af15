"""Saying once that a loop goes on for ever, where nobody may have meant it to."""

from __future__ import annotations

import logging

__all__ = ["EndlessNotice"]

_logger = logging.getLogger(__name__)


class EndlessNotice:
    """Logs one line when a reading that never ends passes its first epoch.

    All who read by the same `ReaderOptions`, and copies of them, share it.
    """

    def __init__(self) -> None:
        self._is_given = False

    def give(self, url: str) -> None:
        """Log it, unless that was done before."""
        if self._is_given:
            return
        self._is_given = True
        _logger.warning(
            "The first epoch over %s is over, and num_epochs=None goes on for ever: end the loop "
            "after some number of steps, or pass num_epochs=1 for one epoch",
            url,
        )
