"""N-grams, consecutive rows as one item: the mirror of ``petastorm.ngram``."""

from __future__ import annotations

from mdstorm._petastorm_names import other_names
from mdstorm._selection.ngram import (
    NGram,
)

__all__ = [
    "NGram",
]

__getattr__ = other_names(__name__)
