"""Stream weights: how many samples of an epoch each stream contributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.elastic.sampling import as_integer
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError

Weighting = Literal["proportion", "repeat", "choose"]
_FACTORS = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


@dataclass(frozen=True)
class StreamShape:
    """What the order needs to know about a stream.

    Attributes
    ----------
    shard_sizes : tuple of int
        Samples of each shard.
    proportion, repeat : float, optional
        The stream's share of an epoch relative to the other streams, or how often its samples
        appear in an epoch.
    choose : int, optional
        How many of its samples an epoch has. At most one of the three is given; without any, every
        sample appears once.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If more than one of them is given, or one is not a number or negative.
    """

    shard_sizes: tuple[int, ...]
    proportion: float | None = None
    repeat: float | None = None
    choose: int | None = None

    def __post_init__(self) -> None:
        names: tuple[Weighting, ...] = ("proportion", "repeat", "choose")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidArgumentError(
                "a stream takes only one of proportion, repeat and choose, found "
                f"{' and '.join(given)}"
            )
        for name in given:
            _check_weight(name, getattr(self, name))

    @cached_property
    def num_samples(self) -> int:
        """Samples of the stream, each counted once."""
        return sum(self.shard_sizes)

    @property
    def weighting(self) -> Weighting | None:
        """Which of the three weights is given."""
        if self.proportion is not None:
            return "proportion"
        if self.repeat is not None:
            return "repeat"
        return None if self.choose is None else "choose"


@dataclass(frozen=True)
class StreamWeight:
    """A stream's part of an epoch, expressed in each of the three ways.

    Attributes
    ----------
    proportion : float
        Fraction of the samples of an epoch.
    repeat : float
        How often a sample of the stream appears on average.
    choose : int
        Samples of the stream in an epoch.
    """

    proportion: float
    repeat: float
    choose: int


def weigh(
    streams: Sequence[StreamShape], epoch_size: int | None, seed: int
) -> tuple[StreamWeight, ...]:
    """Derive every stream's part of an epoch.

    Parameters
    ----------
    epoch_size : int, optional
        Samples of an epoch over the whole world. None: as many as there are, or as the streams'
        repeat and choose give.
    seed : int
        Decides which streams get the samples left over by rounding down.

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
        chosen = [_absolute(stream) for stream in streams]
        proportions = [count / max(sum(chosen), 1) for count in chosen]
    for number, (stream, count) in enumerate(zip(streams, chosen, strict=True)):
        if count and not stream.num_samples:
            raise InvalidArgumentError(
                f"stream {number} has no samples, but its weight asks for {count}: leave it out"
            )
    return tuple(
        StreamWeight(share, count / max(stream.num_samples, 1), count)
        for stream, share, count in zip(streams, proportions, chosen, strict=True)
    )


def parse_epoch_size(value: int | str | None) -> int | None:
    """Read an epoch size such as 5000, ``"5000"``, ``"10k"`` or ``"1.5m"``; 0 is None.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If it is neither, or negative.
    """
    if isinstance(value, str):
        value = count_of("epoch_size", value)
    return None if value is None else as_integer("epoch_size", value, 0) or None


def count_of(name: str, text: str) -> int:
    """Return the integer that a text such as ``"5000"``, ``"10k"`` or ``"1.5m"`` stands for.

    Raises
    ------
    InvalidArgumentError
        If it stands for none; the message begins with `name`.
    """
    number = text.strip().lower()
    factor = _FACTORS.get(number[-1:])
    try:
        return int(number) if factor is None else int(float(number[:-1]) * factor)
    except (ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"{name} must be a number with or without one of the suffixes {', '.join(_FACTORS)}, "
            f"found {text!r}"
        ) from error


def _check_weight(name: Weighting, value: object) -> None:
    if name == "choose":
        as_integer(name, value, 0)
        return
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise ArgumentTypeError(f"the {name} of a stream must be a number, found {value!r}")
    if not 0 <= float(value) < float("inf"):
        raise InvalidArgumentError(
            f"the {name} of a stream must be finite and not negative, found {value!r}"
        )


def _relative(
    streams: Sequence[StreamShape], weights: list[float], epoch_size: int | None, seed: int
) -> tuple[list[int], list[float]]:
    """Divide the epoch in proportion to weights; leftover samples go to streams drawn at random."""
    size = epoch_size or sum(stream.num_samples for stream in streams)
    total = np.sum(np.array(weights, np.float64))
    if not total:
        if size:
            raise InvalidArgumentError(
                "the weights of all streams are 0: give at least one a positive proportion, or data"
            )
        return [0] * len(streams), [0.0] * len(streams)
    shares = np.array(weights, np.float64) / total
    chosen = (size * shares).astype(np.int64)
    left = size - int(chosen.sum())
    chosen[np.random.default_rng(seed).choice(len(streams), left, replace=False)] += 1
    return chosen.tolist(), shares.tolist()


def _absolute(stream: StreamShape) -> int:
    if stream.choose is not None:
        return int(stream.choose)
    if stream.repeat is not None:
        return int(stream.repeat * stream.num_samples)
    return stream.num_samples
