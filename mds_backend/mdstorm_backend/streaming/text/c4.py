"""The mirror of ``streaming.text.c4``."""

from __future__ import annotations

from mdstorm_backend.streaming.text.tokenized import TokenizedTexts

__all__ = ["StreamingC4"]


class StreamingC4(TokenizedTexts):
    """C4, the cleaned Common Crawl: texts as tokens."""
