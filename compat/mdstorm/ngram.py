"""N-grams, consecutive rows as one item: the mirror of ``petastorm.ngram``."""

from __future__ import annotations

from mdstorm._selection.ngram import (
    NGram,
)

__all__ = [
    "NGram",
]
