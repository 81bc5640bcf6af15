"""The mirror of ``streaming.text.pile``."""

from __future__ import annotations

from mdstorm_backend.streaming.text.tokenized import TokenizedTexts

__all__ = ["StreamingPile"]


class StreamingPile(TokenizedTexts):
    """The Pile: texts as tokens."""
