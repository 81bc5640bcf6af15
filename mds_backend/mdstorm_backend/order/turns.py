"""`Turns`: how several parts of a lane are read in turns.

A lane that was cut from older ones has parts of them. If these were read one after another, each
batch would have rows of one place in the data. So up to `AT_ONCE` parts are read in *rounds*, each
of which takes the same share of every part, at most one sample: they all end together. More would
keep too many shards open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Counts: TypeAlias = npt.NDArray[np.int64]

#: How many parts are read in turns.
AT_ONCE = 16
#: How many turns are computed together.
_TURNS = 1 << 13


@dataclass(frozen=True, eq=False)
class Turns:
    """Parts of older lanes that are read in turns.

    Attributes
    ----------
    lanes, starts, sizes : numpy.ndarray
        int64, for each part: its lane in the epoch's first layout, where it begins in that lane,
        and its number of samples.
    done : int
        Number of samples that have been read.
    """

    lanes: Counts
    starts: Counts
    sizes: Counts
    done: int = 0

    def parts(self) -> Iterator[tuple[int, range]]:
        """Yield the lane of each part in the first layout, and its unread places there."""
        begins = self.starts + self._progress[1]
        stops = self.starts + self.sizes
        for lane, *places in zip(*map(np.ndarray.tolist, (self.lanes, begins, stops)), strict=True):
            yield lane, range(*places)

    def owners(self) -> Iterator[Counts]:
        """Yield the number of the part that each unread sample belongs to, in reading order."""
        first, done = self._progress
        bits, step = int(self.sizes.max()).bit_length(), max(_TURNS // len(self.sizes), 1)
        for begin in range(int(first[0]), 1 << bits, step):
            rounds = np.arange(begin, min(begin + step, 1 << bits) + 1)[:, None]
            read = np.maximum(_read_in(rounds, self.sizes, bits), done)
            yield np.nonzero(np.diff(read, axis=0))[1]

    @property
    def _progress(self) -> tuple[Counts, Counts]:
        return progress(self.sizes, np.zeros(1, np.int64), np.array([self.done]))


def progress(sizes: Counts, firsts: Counts, taken: Counts) -> tuple[Counts, Counts]:
    """Return how far groups of parts have been read.

    Parameters
    ----------
    sizes : numpy.ndarray
        int64, number of samples in each part, at least one.
    firsts, taken : numpy.ndarray
        int64, each group's first part, and the number of its samples that have been read.

    Returns
    -------
    numpy.ndarray
        int64, the number of complete rounds of each group.
    numpy.ndarray
        int64, the number of samples of each part that have been read.
    """
    counts = np.diff(np.append(firsts, len(sizes)))
    bits = np.frexp(np.maximum.reduceat(sizes, firsts))[1].astype(np.int64)
    rounds_per_sample = np.exp2(bits) / np.add.reduceat(sizes, firsts)

    def read_in(rounds: Counts) -> Counts:
        return _read_in(np.repeat(rounds, counts), sizes, np.repeat(bits, counts))

    # Parts are rounded down, by less than a sample each. The margin is for the floating point.
    low = np.maximum((taken * rounds_per_sample).astype(np.int64) - 2, 0)
    high = ((taken + counts) * rounds_per_sample).astype(np.int64) + 2
    while (high - low > 1).any():
        middle = (low + high) // 2
        is_read = np.add.reduceat(read_in(middle), firsts) <= taken
        low, high = np.where(is_read, middle, low), np.where(is_read, high, middle)
    done = read_in(low)
    # Of the round that has begun, the first parts have been read.
    turns = read_in(low + 1) - done
    before = np.cumsum(turns) - turns
    before -= np.repeat(before[firsts], counts)
    left = np.repeat(taken - np.add.reduceat(done, firsts), counts)
    return low, done + np.where(before < left, turns, 0)


def _read_in(rounds: Counts, sizes: Counts, bits: Counts | int) -> Counts:
    """Return how many samples of parts are read in the first of ``2**bits`` rounds.

    This is ``rounds * sizes >> bits``, in two steps, because the product may exceed 64 bits.
    """
    low = bits // 2
    high_part, low_part = rounds >> low, rounds & ((1 << low) - 1)
    found: Counts = (sizes * high_part + (sizes * low_part >> low)) >> (bits - low)
    return found
