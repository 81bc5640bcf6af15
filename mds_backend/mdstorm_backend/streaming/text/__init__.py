"""Datasets of text: the mirror of ``streaming.text``."""

from __future__ import annotations

from mdstorm_backend.streaming.text.c4 import StreamingC4
from mdstorm_backend.streaming.text.enwiki import StreamingEnWiki
from mdstorm_backend.streaming.text.pile import StreamingPile

__all__ = ["StreamingC4", "StreamingEnWiki", "StreamingPile"]
