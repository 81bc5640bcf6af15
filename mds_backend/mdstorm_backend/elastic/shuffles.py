"""Shuffle algorithms, which draw the same random numbers as MosaicML Streaming's.

A shuffle permutes the ids from 0 to the number of samples. The samples read from each shard are a
*unit* of consecutive ids. Every canonical node has an equal part of the permutation, whose samples
come from few shards, so that a node downloads only its own shards; ``naive`` ignores this.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import check_one_of, warn_user
from mdstorm_backend.elastic.sampling import CHUNK, Ids, IntArray, chunks, index_dtype
from mdstorm_backend.errors import InvalidArgumentError

#: Names of the shuffle algorithms.
SHUFFLE_ALGORITHMS = ("naive", "py1s", "py2s", "py1br", "py1e")


#: Minimum number of ids to sort at a time, not counting ids that may still mix with later spans.
WINDOW = 1 << 20
SORTED_AT_ONCE = 1 << 24


#: Runs of consecutive ids, with shape (2, runs): their first ids and their lengths.
_Spans: TypeAlias = npt.NDArray[np.int64]


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
        ``py1s`` and ``py2s`` shuffle within each shard's part of a node, ``py1br`` within blocks of
        about `block_size` samples; ``py1e`` moves every sample by up to half a block; ``naive``
        permutes everything.
    shard_sizes : sequence of int
        Samples in each shard, or in each unit in which shards are read.
    num_canonical_nodes : int
        Number of parts of the permutation.
    seed, epoch : int
        The seed determines which shards belong to a node; the seed and the epoch determine
        everything else.
    block_size : int
        Approximate number of samples that are shuffled together by ``py1br`` and ``py1e``.

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
    algo: str,
    units: IntArray,
    canonical_nodes: int,
    seed: int,
    epoch: int,
    block_size: int,
    wanted: Collection[int] | None = None,
) -> IntArray:
    """Return the permutation of `shuffle`, in the smallest dtype that holds the ids.

    If `wanted` lists canonical nodes, other nodes' ids are omitted, except by ``naive``. One
    generator draws for all nodes in turn, so nodes before the last wanted one still take time.
    """
    total = int(units.sum())
    dtype = index_dtype(total)
    if algo == "naive":
        ids = np.arange(total, dtype=dtype)
        np.random.default_rng(seed + epoch).shuffle(ids)
        return ids
    blocks = block_range(algo, block_size)
    spans = np.stack([np.cumsum(units) - units, units])
    first = np.random.default_rng(seed)
    spans = spans[:, first.permutation(len(units))]
    rng = np.random.default_rng(seed + epoch)
    wanted = range(canonical_nodes) if wanted is None else wanted
    if algo != "py2s":
        return _shuffle_nodes(algo, _cut(spans, canonical_nodes), rng, blocks, wanted, dtype)
    shuffled = np.empty(total, dtype)
    _fill(shuffled, spans)
    _shuffle_sections(shuffled, _bounds(spans), first)
    spans[0] = np.cumsum(spans[1]) - spans[1]
    return shuffled[_shuffle_nodes(algo, _cut(spans, canonical_nodes), rng, blocks, wanted, dtype)]


def _cut(spans: _Spans, parts: int) -> list[_Spans]:
    """Cut spans into `parts` equal parts; an empty span at a cut goes before the cut."""
    begins, lengths = spans
    stops = np.cumsum(lengths)
    starts = stops - lengths
    total = int(stops[-1]) if len(stops) else 0
    pieces, first, begin = [], 0, 0
    for part in range(parts):
        end = total * (part + 1) // parts
        last = int(np.searchsorted(stops, end, side="right"))
        split = last < len(stops) and max(int(starts[last]), begin) < end
        of_part = slice(first, last + split)
        lows, highs = np.maximum(starts[of_part], begin), np.minimum(stops[of_part], end)
        pieces.append(np.stack([begins[of_part] + lows - starts[of_part], highs - lows]))
        first, begin = last, end
    return pieces


def _shuffle_nodes(
    algo: str,
    parts: list[_Spans],
    rng: np.random.Generator,
    blocks: tuple[int, int],
    wanted: Collection[int],
    dtype: np.dtype[np.signedinteger[Any]],
) -> IntArray:
    """Shuffle each node's part, and return the concatenated parts of the wanted nodes."""
    if algo != "py2s":
        parts = [part[:, rng.permutation(part.shape[1])] for part in parts]
    if algo == "py1br":
        starts = rng.integers(0, blocks[0], len(parts)).tolist()
    sizes = {node: int(parts[node][1].sum()) for node in wanted}
    ids = np.empty(sum(sizes.values()), dtype)
    ends = zip(sizes, accumulate(sizes.values()), strict=True)
    of_nodes = {node: ids[end - sizes[node] : end] for node, end in ends}
    is_narrow = False
    for node, part in enumerate(parts[: max(wanted) + 1]):
        of_node = of_nodes.get(node)
        if algo == "py2s":
            part = part[:, rng.permutation(part.shape[1])]
        if of_node is not None:
            _fill(of_node, part)
        if algo == "py1br":
            sections = _blocks(int(part[1].sum()), rng, *blocks, starts[node])
        else:
            sections = _bounds(part)
        _shuffle_sections(of_node, sections, rng)
        if algo == "py1e":
            is_narrow |= _disperse(of_node, part[1].tolist(), rng, *blocks)
    if is_narrow:
        warn_user(
            "Shuffle block size was smaller than shard size for some shards: their samples mix "
            "only among themselves. Pass a shuffle_block_size of several shards"
        )
    return ids


def block_range(algo: str, block_size: int) -> tuple[int, int]:
    """Return the range from which block sizes are drawn."""
    check_one_of("shuffle_algo", algo, SHUFFLE_ALGORITHMS)
    low, high = int(0.75 * block_size), int(1.25 * block_size)
    least = {"py1br": low, "py1e": high}.get(algo, 1)
    if least < 1:
        raise InvalidArgumentError(
            f"a shuffle block of {block_size} samples is too small for {algo}: use a larger "
            "shuffle_block_size (it is divided among the streams unless batching_method is "
            "random)"
        )
    return low, high


def _fill(ids: IntArray, spans: _Spans) -> None:
    """Write the ids of the spans into `ids`, one span after another."""
    for begin, (start, stop) in zip(spans[0].tolist(), _bounds(spans), strict=True):
        ids[start:stop] = np.arange(begin, begin + stop - start, dtype=ids.dtype)


def _bounds(spans: _Spans) -> list[tuple[int, int]]:
    """Return the start and stop of each span in the concatenation of all spans."""
    return list(pairwise(accumulate(spans[1].tolist(), initial=0)))


def _blocks(
    size: int, rng: np.random.Generator, low: int, high: int, stagger: int
) -> list[tuple[int, int]]:
    """Cut `size` ids into blocks of random sizes, which overlap by up to `stagger` ids."""
    blocks, current = [], 0
    while current < size:
        width = int(rng.integers(low, high))
        begin, end = max(current - stagger, 0), min(current + width - stagger, size)
        blocks.append((begin, end))
        current += end - begin
    return blocks


def _shuffle_sections(
    ids: IntArray | None, sections: Sequence[tuple[int, int]], rng: np.random.Generator
) -> None:
    """Shuffle ids within sections; if `ids` is None, only draw the same random numbers."""
    longest = max((stop - start for start, stop in sections), default=0)
    unused = np.empty(longest if ids is None else 0, np.int64)  # the dtype that shuffles fastest
    for start, stop in sections:
        rng.shuffle(unused[: stop - start] if ids is None else ids[start:stop])


def _disperse(
    ids: IntArray | None, lengths: Sequence[int], rng: np.random.Generator, low: int, high: int
) -> bool:
    """Move every id by a random distance of up to half a block, within the node.

    Ids are sorted by their new positions in place, window by window: no later id can land more than
    half a block before its own span. If `ids` is None, only random numbers are drawn.

    Returns
    -------
    bool
        Whether some span is longer than its block, so that none of its ids leaves the span.
    """
    is_narrow = False
    settled, offset, size = 0, 0, sum(lengths)
    window = 2 * high + WINDOW
    waiting = np.empty(min(window + max(lengths, default=0), size))
    for length in lengths:
        room = int(rng.integers(low, high)) - length
        is_narrow |= room < 0
        half = max(room / 2, 0)
        shift = rng.uniform(max(-half, -offset), min(half, size - offset - length), length)
        begin, offset = offset, offset + length
        if ids is None:
            continue
        place = begin - settled
        np.add(np.arange(begin, offset), shift, out=waiting[place : place + length])
        if offset - settled >= window or offset == size:
            final = np.inf if offset == size else offset - high / 2 - 1
            settled += _settle(ids[settled:offset], waiting[: offset - settled], final)
    return is_narrow


def _settle(ids: IntArray, positions: npt.NDArray[np.float64], final: float) -> int:
    """Move the ids at positions below `final` to the front, sorted; return how many there are.

    The positions of the other ids move to the front of `positions`. Large numbers of ids are sorted
    in several ranges of positions, which takes less memory.
    """
    unsorted, done = ids.copy(), 0
    parts = -(-len(ids) // SORTED_AT_ONCE)
    inner: list[float] = []
    if parts > 1:
        inner = np.linspace(positions.min(), min(final, positions.max()), parts + 1)[1:-1].tolist()
    if not inner and final == np.inf:
        unsorted.take(sorting_order(positions), out=ids, mode="clip")
        return len(ids)
    for begin, end in pairwise([-np.inf, *inner, final]):
        here = np.flatnonzero((positions >= begin) & (positions < end))
        ids[done : done + len(here)] = unsorted[here[sorting_order(positions[here])]]
        done += len(here)
    later = np.flatnonzero(positions >= final)
    ids[done:] = unsorted[later]
    positions[: len(later)] = positions[later]
    return done


def sorting_order(positions: npt.NDArray[np.float64]) -> Ids:
    """Return the indices that sort the positions.

    Sorting integers is several times as fast as `numpy.argsort`. Rounded positions are sorted
    first, with their indices in the low bits, and then the few that are equal after rounding.
    """
    count = len(positions)
    if not count:
        return np.empty(0, np.int64)
    least, bits = positions.min(), count.bit_length()
    scale = 2.0 ** (62 - bits) / max(float(positions.max() - least), 1.0)
    keys = np.empty(count, np.int64)
    for part in chunks(count, CHUNK):
        rounded = ((positions[part] - least) * scale).astype(np.int64)
        keys[part] = (rounded << bits) | np.arange(part.start, part.stop)
    keys.sort()
    order = keys & ((1 << bits) - 1)
    keys >>= bits
    equal = np.flatnonzero(keys[1:] == keys[:-1])
    for run in np.split(equal, np.flatnonzero(np.diff(equal) > 1) + 1) if len(equal) else ():
        alike = slice(run[0], run[-1] + 2)
        order[alike] = order[alike][np.argsort(positions[order[alike]])]
    return order
