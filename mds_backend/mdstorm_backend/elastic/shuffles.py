"""Shuffle algorithms, which draw the same random numbers as MosaicML Streaming's.

A shuffle permutes the ids from 0 to the number of samples, given as *units* of consecutive ids: the
samples read from each shard. Every canonical node has an equal part of the permutation, whose
samples come from few shards, so that a node downloads only its own; ``naive`` ignores this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.user_warnings import warn_user
from mdstorm_backend.elastic.id_arrays import IntArray, index_dtype
from mdstorm_backend.errors import InvalidArgumentError

#: Names of the shuffle algorithms.
SHUFFLE_ALGORITHMS = ("naive", "py1s", "py2s", "py1br", "py1e")


#: Smallest number of ids to sort at a time, besides those that blocks keep from being final.
_WINDOW = 1 << 20
_SORTED_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class _Spans:
    """Runs of consecutive ids: their first ids and their lengths."""

    begins: IntArray
    lengths: IntArray

    def take(self, order: IntArray) -> _Spans:
        return _Spans(self.begins[order], self.lengths[order])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.begins.tolist(), self.lengths.tolist(), strict=True)

    def cut(self, parts: int) -> list[_Spans]:
        """Cut into `parts` of equal length, in order; a span of no ids goes to the earlier one."""
        stops = np.cumsum(self.lengths)
        starts = stops - self.lengths
        total = int(stops[-1]) if len(stops) else 0
        found, first, begin = [], 0, 0
        for part in range(parts):
            end = total * (part + 1) // parts
            last = int(np.searchsorted(stops, end, side="right"))
            split = last < len(stops) and max(int(starts[last]), begin) < end
            of_part = slice(first, last + split)
            lows, highs = np.maximum(starts[of_part], begin), np.minimum(stops[of_part], end)
            found.append(_Spans(self.begins[of_part] + lows - starts[of_part], highs - lows))
            first, begin = last, end
        return found


def shuffle(
    algo: str,
    shard_sizes: Sequence[int] | IntArray,
    num_canonical_nodes: int,
    seed: int,
    epoch: int,
    block_size: int = 1 << 18,
) -> npt.NDArray[np.int64]:
    """Permute the ids of all samples.

    Parameters
    ----------
    algo : {"py1e", "py1br", "py1s", "py2s", "naive"}
        How samples move. ``py1s`` and ``py2s`` shuffle within each shard's part of a node,
        ``py1br`` within blocks of about `block_size` samples, ``py1e`` moves every sample by up to
        half a block; ``naive`` permutes everything.
    shard_sizes : sequence of int
        Samples of each shard, or of each unit in which shards are read.
    num_canonical_nodes : int
        Number of parts of the permutation.
    seed, epoch : int
        The seed decides which shards belong to a node, seed and epoch everything else.
    block_size : int
        About how many samples mix with one another under ``py1br`` and ``py1e``.

    Returns
    -------
    numpy.ndarray
        int64, one entry per sample.

    Notes
    -----
    With fewer samples than canonical nodes, ``py1e`` skips the nodes without samples; MosaicML
    Streaming raises an error.

    Raises
    ------
    InvalidArgumentError
        For an unknown algorithm, or blocks too small for it.
    """
    units = np.asarray(shard_sizes, np.int64)
    return permutation(algo, units, num_canonical_nodes, seed, epoch, block_size).astype(
        np.int64, copy=False
    )


def permutation(
    algo: str, units: IntArray, canonical_nodes: int, seed: int, epoch: int, block_size: int
) -> IntArray:
    """Do what `shuffle` does, in the smallest type that holds the ids."""
    units = np.asarray(units, np.int64)
    total = int(units.sum())
    ids = np.empty(total, index_dtype(total))
    if algo == "naive":
        ids[:] = np.arange(total, dtype=ids.dtype)
        np.random.default_rng(seed + epoch).shuffle(ids)
        return ids
    low, high = block_range(algo, block_size)
    spans = _Spans(np.cumsum(units) - units, units)
    first = np.random.default_rng(seed)
    spans = spans.take(first.permutation(len(units)))
    rng = np.random.default_rng(seed + epoch)
    if algo == "py2s":
        _shuffle_twice(ids, spans, canonical_nodes, first, rng)
        return ids
    nodes = [part.take(rng.permutation(len(part.begins))) for part in spans.cut(canonical_nodes)]
    if algo == "py1br":
        starts = rng.integers(0, low, canonical_nodes).tolist()
    offset, is_narrow = 0, False
    for node, part in enumerate(nodes):
        of_node = ids[offset : offset + int(part.lengths.sum())]
        if algo == "py1br":
            _shuffle_blocks(of_node, part, rng, low, high, starts[node])
        else:
            _fill(of_node, part, rng)
            if algo == "py1e":
                is_narrow |= _disperse(of_node, part.lengths.tolist(), rng, low, high)
        offset += len(of_node)
    if is_narrow:
        warn_user(
            "Shuffle block size was smaller than shard size for some shards: samples of these are "
            "shuffled among themselves, and do not mix with others. Give a shuffle_block_size of "
            "several shards"
        )
    return ids


def block_range(algo: str, block_size: int) -> tuple[int, int]:
    """Range of the random size of a block."""
    low, high = int(0.75 * block_size), int(1.25 * block_size)
    least = {"py1br": low, "py1e": high}.get(algo, 1)
    if algo not in SHUFFLE_ALGORITHMS:
        raise InvalidArgumentError(
            f"shuffle_algo must be one of {', '.join(SHUFFLE_ALGORITHMS)}, found {algo!r}"
        )
    if least < 1:
        raise InvalidArgumentError(
            f"a shuffle block of {block_size} samples is too small for {algo}: use a larger "
            "shuffle_block_size (each stream has its share of it unless batching_method is random)"
        )
    return low, high


def _fill(ids: IntArray, spans: _Spans, rng: np.random.Generator | None) -> None:
    """Write the ids of the spans one after another, each span shuffled if there is a generator."""
    offset = 0
    for begin, length in spans:
        of_span = ids[offset : offset + length]
        of_span[:] = np.arange(begin, begin + length, dtype=ids.dtype)
        if rng is not None:
            rng.shuffle(of_span)
        offset += length


def _shuffle_blocks(
    ids: IntArray, spans: _Spans, rng: np.random.Generator, low: int, high: int, stagger: int
) -> None:
    """Shuffle within blocks of random sizes, which overlap by up to `stagger`."""
    _fill(ids, spans, None)
    blocks, current = [], 0
    while current < len(ids):
        width = int(rng.integers(low, high))
        begin, end = max(current - stagger, 0), min(current + width - stagger, len(ids))
        blocks.append((begin, end))
        current += end - begin
    for begin, end in blocks:
        rng.shuffle(ids[begin:end])


def _disperse(
    ids: IntArray, lengths: Sequence[int], rng: np.random.Generator, low: int, high: int
) -> bool:
    """Move every id by a random distance: up to half a block, and not out of the node.

    Ids are sorted by their new positions in place, window by window: no later one can land more
    than half a block before its own span.

    Returns
    -------
    bool
        Whether a span is longer than its block, so that none of its ids leaves it.
    """
    is_narrow = False
    settled, offset, size = 0, 0, len(ids)
    window = 2 * high + _WINDOW
    waiting = np.empty(min(window + max(lengths, default=0), size))
    for length in lengths:
        room = int(rng.integers(low, high)) - length
        is_narrow |= room < 0
        half = max(room / 2, 0)
        shift = rng.uniform(max(-half, -offset), min(half, size - offset - length), length)
        place, stop = offset - settled, offset + length
        np.add(np.arange(offset, stop), shift, out=waiting[place : place + length])
        offset = stop
        if offset - settled >= window or offset == size:
            final = np.inf if offset == size else offset - high / 2 - 1
            settled += _settle(ids[settled:offset], waiting[: offset - settled], final)
    return is_narrow


def _settle(ids: IntArray, positions: npt.NDArray[np.float64], final: float) -> int:
    """Sort the ids at positions below `final` to the front, with the positions; count them.

    Large numbers of ids are sorted in several ranges of positions, which takes less memory.
    """
    unsorted, done = ids.copy(), 0
    parts = -(-len(ids) // _SORTED_AT_ONCE)
    if parts > 1:
        inner = np.linspace(positions.min(), min(final, positions.max()), parts + 1)[1:-1].tolist()
    else:
        inner = []
    for begin, end in pairwise([-np.inf, *inner, final]):
        here = np.flatnonzero((positions >= begin) & (positions < end))
        ids[done : done + len(here)] = unsorted[here[np.argsort(positions[here])]]
        done += len(here)
    later = np.flatnonzero(positions >= final)
    ids[done:] = unsorted[later]
    positions[: len(later)] = positions[later]
    return done


def _shuffle_twice(
    ids: IntArray,
    spans: _Spans,
    canonical_nodes: int,
    first: np.random.Generator,
    rng: np.random.Generator,
) -> None:
    """Shuffle the spans and within them, cut them for the nodes, and do it again per node."""
    shuffled = np.empty_like(ids)
    _fill(shuffled, spans, first)
    lengths = spans.lengths
    offset = 0
    for part in _Spans(np.cumsum(lengths) - lengths, lengths).cut(canonical_nodes):
        for begin, length in part.take(rng.permutation(len(part.begins))):
            of_span = ids[offset : offset + length]
            of_span[:] = shuffled[begin : begin + length]
            rng.shuffle(of_span)
            offset += length
