"""Compute how many samples each stream contributes to an epoch, and which samples these are.

Streams may have weights: `weigh` turns them into sample counts, `samples_per_shard` divides
these among shards, and `resample` draws the samples.

An epoch that repeats or omits samples has its own numbering: *big ids* from 0 to the size of the
epoch, shard by shard. `resample` returns the map from them to sample ids.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.order import StreamShape, StreamWeight

IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
Ids: TypeAlias = npt.NDArray[np.int64]
_FACTORS = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def weigh(
    streams: Sequence[StreamShape], epoch_size: int | None, seed: int
) -> tuple[StreamWeight, ...]:
    """Return every stream's part of an epoch.

    Parameters
    ----------
    epoch_size : int, optional
        Samples in an epoch over the whole world. None means the total number of samples, or the
        total that the streams' repeat and choose add up to.
    seed : int
        Decides which streams get the samples left over after rounding down.

    Raises
    ------
    InvalidArgumentError
        If relative and absolute weights are mixed, an epoch size is given with absolute ones, all
        proportions are 0, or samples would be drawn from a stream that has none.
    """
    kinds = {stream.weighting for stream in streams}
    if "proportion" in kinds and len(kinds) > 1:
        raise InvalidArgumentError(
            "relative and absolute weights of streams cannot be mixed: set proportion for all "
            "streams, or for none"
        )
    if epoch_size is not None and kinds & {"repeat", "choose"}:
        raise InvalidArgumentError(
            "epoch_size cannot be combined with repeat or choose of streams, which determine the "
            "size of an epoch: leave epoch_size out, or weight the streams by proportion"
        )
    if "proportion" in kinds:
        weights = [stream.proportion or 0.0 for stream in streams]
        chosen, proportions = _relative(streams, weights, epoch_size, seed)
    elif epoch_size is not None:
        counts = [float(stream.num_samples) for stream in streams]
        chosen, proportions = _relative(streams, counts, epoch_size, seed)
    else:
        repeats = [1 if stream.repeat is None else stream.repeat for stream in streams]
        chosen = [
            int(repeat * stream.num_samples if stream.choose is None else stream.choose)
            for stream, repeat in zip(streams, repeats, strict=True)
        ]
        proportions = [count / max(sum(chosen), 1) for count in chosen]
    for number, (stream, count) in enumerate(zip(streams, chosen, strict=True)):
        if count and not stream.num_samples:
            raise InvalidArgumentError(
                f"stream {number} has no samples, but its weight requires {count}: leave it out"
            )
    return tuple(
        StreamWeight(share, count / max(stream.num_samples, 1), count)
        for stream, share, count in zip(streams, proportions, chosen, strict=True)
    )


def parse_epoch_size(value: int | str | None) -> int | None:
    """Parse an epoch size such as 5000, ``"5000"``, ``"10k"`` or ``"1.5m"``; return None for 0.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If it is not such a number, negative or too large.
    """
    if isinstance(value, str):
        value = count_of("epoch_size", value)
    if value is None:
        return None
    size = as_integer("epoch_size", value, 0)
    if size > sys.maxsize:
        raise InvalidArgumentError(f"epoch_size must fit into 64 bits, found {size}")
    return size or None


def count_of(name: str, text: str) -> int:
    """Parse a string such as ``"5000"``, ``"10k"`` or ``"1.5m"`` as an integer.

    Raises
    ------
    InvalidArgumentError
        If it is not such a string; the message begins with `name`.
    """
    number = text.strip().lower()
    factor = _FACTORS.get(number[-1:])
    try:
        return int(number) if factor is None else int(float(number[:-1]) * factor)
    except (ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{name} must be a number, optionally with one of the suffixes {', '.join(_FACTORS)}, "
            f"found {text!r}"
        ) from error


def _relative(
    streams: Sequence[StreamShape], weights: list[float], epoch_size: int | None, seed: int
) -> tuple[list[int], list[float]]:
    """Divide an epoch in proportion to weights; random streams get the leftover samples."""
    size = epoch_size or sum(stream.num_samples for stream in streams)
    total = np.sum(np.array(weights, np.float64))
    if not total:
        if size:
            raise InvalidArgumentError(
                "the weights of all streams are 0: give at least one stream data and a positive "
                "proportion"
            )
        return [0] * len(streams), [0.0] * len(streams)
    shares = np.array(weights, np.float64) / total
    chosen = (size * shares).astype(np.int64)
    left = size - int(chosen.sum())
    chosen[np.random.default_rng(seed).choice(len(streams), left, replace=False)] += 1
    return chosen.tolist(), shares.tolist()


@dataclass(frozen=True)
class ShardSample:
    """How many samples an epoch takes from each shard of a stream.

    Attributes
    ----------
    proportion : float
        Fraction of the samples of the epoch.
    first_id : int
        Sample id of the first sample of the first shard.
    sizes, counts : numpy.ndarray
        Samples of each shard, and how many of them an epoch takes.
    """

    proportion: float
    first_id: int
    sizes: IntArray
    counts: IntArray


def samples_per_shard(
    sizes: Sequence[int] | IntArray,
    choose: int,
    granularity: int,
    seed: int,
    epoch: int,
    use_epoch: bool,
) -> npt.NDArray[np.int64]:
    """Return how many of `choose` samples each shard contributes.

    Parameters
    ----------
    sizes : sequence of int
        Samples of each shard.
    choose : int
        How many samples all shards contribute together. If they have fewer, samples are repeated.
    granularity : int
        How many samples are taken from a shard at a time, if it has that many.
    seed, epoch : int
        Determine which shards contribute more; the epoch only with `use_epoch`.

    Returns
    -------
    numpy.ndarray
        int64, one count per shard.
    """
    available: npt.NDArray[np.int64] = np.asarray(sizes, np.int64)
    as_integer("sampling_granularity", granularity, 1)
    total = int(available.sum())
    if choose and not total:
        raise InvalidArgumentError(f"cannot take {choose} samples from shards without samples")
    copies, rest = divmod(choose, total or 1)
    counts = available * copies
    if not rest:
        return counts
    picks = -(-available // granularity)
    last_pick = available - (picks - 1) * granularity
    # Like MosaicML Streaming, count the last pick of a shard before an empty shard as a whole pick,
    # even if fewer samples remain for it.
    last_pick[:-1][available[1:] == 0] = granularity
    stops = np.cumsum(picks)
    order = np.arange(stops[-1], dtype=index_dtype(int(stops[-1])))
    np.random.default_rng(seed + (epoch if use_epoch else 0)).shuffle(order)
    for part in chunks(len(order), CHUNK):
        shards = np.searchsorted(stops, order[part], side="right")
        last = order[part] == stops[shards] - 1
        drawn = np.where(last, last_pick[shards], granularity)
        before = np.cumsum(drawn) - drawn
        drawn = np.clip(rest - before, 0, drawn)
        counts += np.bincount(shards, drawn, len(counts)).astype(np.int64)
        rest -= int(drawn.sum())
        if not rest:
            break
    return counts


def resample(
    samples: Iterable[ShardSample], seed: int
) -> tuple[IntArray, Callable[[IntArray], IntArray]]:
    """Draw an epoch's samples.

    Parameters
    ----------
    samples : iterable of ShardSample
        One per stream, in order.
    seed : int
        Seed for drawing samples from shards that are not taken completely.

    Returns
    -------
    units : numpy.ndarray
        Lengths of the runs of big ids that are copies or parts of one shard, which shuffles treat
        as shards.
    sample_ids : callable
        Returns the sample ids of big ids, in a new array.
    """
    streams = list(samples)
    if all(np.array_equal(stream.sizes, stream.counts) for stream in streams):
        first = streams[0].first_id if streams else 0
        sizes = np.concatenate([np.zeros(0, np.int64), *(stream.sizes for stream in streams)])
        return sizes[sizes > 0], lambda big: big + first  # empty shards have no units
    total = sum(int(stream.counts.sum()) for stream in streams)
    limit = max(stream.first_id + int(stream.sizes.sum()) for stream in streams)
    ids = np.empty(total, index_dtype(limit))
    rng = np.random.default_rng(seed)
    units: list[int] = []
    offset = 0
    for stream in streams:
        first = stream.first_id
        for size, count in zip(stream.sizes.tolist(), stream.counts.tolist(), strict=True):
            copies, rest = divmod(count, size) if size else (0, 0)
            for _ in range(copies):
                ids[offset : offset + size] = np.arange(first, first + size)
                offset += size
            units += [size] * copies
            if rest:
                ids[offset : offset + rest] = first + np.sort(rng.choice(size, rest, replace=False))
                offset += rest
                units.append(rest)
            first += size
    return np.array(units, np.int64), lambda big: ids[big]


#: Elements to process at a time: few enough to stay in the processor's cache.
CHUNK = 1 << 18


def index_dtype(size: int) -> np.dtype[np.signedinteger[Any]]:
    """Return the smallest dtype for the ids of `size` samples: int32 up to two billion."""
    return np.dtype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)


def chunks(size: int, step: int) -> Iterator[slice]:
    """Cut ``range(size)`` into slices of at most `step` elements; a step below 1 counts as 1."""
    step = max(step, 1)
    for begin in range(0, size, step):
        yield slice(begin, min(begin + step, size))


def as_integer(name: str, value: object, at_least: int) -> int:
    """Check that `value` is an integer of any type except bool, and return it as int.

    Raises
    ------
    ArgumentTypeError
        If it is not an integer.
    InvalidArgumentError
        If it is less than `at_least`.
    """
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(f"{name} must be an integer, found {value!r}") from None
    if number < at_least:
        raise InvalidArgumentError(f"{name} must be at least {at_least}, found {number}")
    return number
