"""Permutations of sample ids: the mirror of ``streaming.base.shuffle``."""

from __future__ import annotations

from functools import partial

from mdstorm_backend.elastic import shuffle as get_shuffle

__all__ = [
    "get_shuffle",
    "get_shuffle_naive",
    "get_shuffle_py1br",
    "get_shuffle_py1e",
    "get_shuffle_py1s",
    "get_shuffle_py2s",
]

#: Each takes what `get_shuffle` takes after the name of the algorithm.
get_shuffle_naive = partial(get_shuffle, "naive")
get_shuffle_py1br = partial(get_shuffle, "py1br")
get_shuffle_py1e = partial(get_shuffle, "py1e")
get_shuffle_py1s = partial(get_shuffle, "py1s")
get_shuffle_py2s = partial(get_shuffle, "py2s")
