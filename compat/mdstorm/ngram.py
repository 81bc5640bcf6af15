"""N-grams: consecutive rows of a sequence as one item."""

from __future__ import annotations

from mdstorm._selection.ngram import (
    NGram,
)

__all__ = [
    "NGram",
]
