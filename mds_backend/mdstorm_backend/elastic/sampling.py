"""Choose which samples each stream contributes to an epoch.

An epoch that repeats or omits samples has its own numbering: *big ids* from 0 to the size of the
epoch, shard by shard. `Resampling` maps them to sample ids, in arrays of the smallest dtype that
holds them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError


@dataclass(frozen=True)
class ShardSample:
    """Some of the samples of consecutive shards.

    Attributes
    ----------
    first_id : int
        Sample id of the first sample of the first shard.
    sizes, counts : numpy.ndarray
        Samples of each shard, and how many are taken in an epoch.
    """

    first_id: int
    sizes: IntArray
    counts: IntArray

    @property
    def is_whole(self) -> bool:
        """Whether every sample is taken once."""
        return bool(np.array_equal(self.sizes, self.counts))


@dataclass(frozen=True)
class Resampling:
    """Map from big ids to sample ids.

    Attributes
    ----------
    units : numpy.ndarray
        Lengths of the runs of big ids that are copies or parts of one shard: what shuffles treat as
        shards.
    ids : numpy.ndarray or None
        Sample id by big id. None where sample ids are big ids plus `first_id`.
    first_id : int
        See `ids`.
    """

    units: IntArray
    ids: IntArray | None
    first_id: int = 0

    @property
    def num_samples(self) -> int:
        """How many big ids there are."""
        return int(self.units.sum())


def samples_per_shard(
    sizes: Sequence[int] | IntArray,
    choose: int,
    granularity: int,
    seed: int,
    epoch: int,
    use_epoch: bool,
) -> npt.NDArray[np.int64]:
    """Share out `choose` samples among shards.

    Parameters
    ----------
    sizes : sequence of int
        Samples of each shard.
    choose : int
        How many are taken of all shards together; more than there are repeats all of them.
    granularity : int
        How many samples are taken from a shard at a time, if it has them.
    seed, epoch : int
        Which shards give more is drawn from the seed and, with `use_epoch`, the epoch.

    Returns
    -------
    numpy.ndarray
        int64, one count per shard.
    """
    available: npt.NDArray[np.int64] = np.asarray(sizes, np.int64)
    as_integer("sampling_granularity", granularity, 1)
    total = int(available.sum())
    if choose and not total:
        raise InvalidArgumentError(f"cannot take {choose} samples of shards without samples")
    copies, rest = divmod(choose, total or 1)
    counts = available * copies
    if not rest:
        return counts
    picks = -(-available // granularity)
    last_pick = available - (picks - 1) * granularity
    # As Mosaic does: a shard before an empty one gives a whole pick, more than it may have.
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


def resample(samples: Iterable[ShardSample], seed: int) -> Resampling:
    """Draw the samples of an epoch and number them.

    Parameters
    ----------
    samples : iterable of ShardSample
        One per stream, in order.
    seed : int
        Seed for drawing samples from a shard that is not taken completely.
    """
    streams = list(samples)
    if all(stream.is_whole for stream in streams):
        first = streams[0].first_id if streams else 0
        sizes = np.concatenate([np.zeros(0, np.int64), *(stream.sizes for stream in streams)])
        return Resampling(sizes[sizes > 0], None, first)  # an empty shard makes no unit
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
    return Resampling(np.array(units, np.int64), ids)


IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
Ids: TypeAlias = npt.NDArray[np.int64]

#: Elements to process at a time: few enough to stay in the processor's cache.
CHUNK = 1 << 18


def index_dtype(size: int) -> np.dtype[np.signedinteger[Any]]:
    """Smallest dtype for the ids of `size` samples: int32 up to two billion."""
    return np.dtype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)


def chunks(size: int, step: int) -> Iterator[slice]:
    """Cut the range of `size` elements into slices of at most `step`; below 1 that counts as 1."""
    step = max(step, 1)
    for begin in range(0, size, step):
        yield slice(begin, min(begin + step, size))


def as_integer(name: str, value: object, at_least: int) -> int:
    """Convert an integer of any type except bool.

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
