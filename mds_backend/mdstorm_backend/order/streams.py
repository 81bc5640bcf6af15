"""What an order knows of streams: the sizes of their shards, and their weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdstorm_backend.base import cached_property, is_integer
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError

_WEIGHTS = ("proportion", "repeat", "choose")


@dataclass(frozen=True)
class StreamShape:
    """A stream's shard sizes, and the weight of its samples, if any.

    Attributes
    ----------
    shard_sizes : tuple of int
        Samples of each shard.
    proportion, repeat : float, optional
        The stream's share of an epoch relative to the other streams, or how often its samples
        appear in an epoch.
    choose : int, optional
        How many of its samples an epoch contains. At most one of the three may be given; without
        any, every sample appears once.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If more than one weight is given, or a weight is not a number or is negative.
    """

    shard_sizes: tuple[int, ...]
    proportion: float | None = None
    repeat: float | None = None
    choose: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in _WEIGHTS if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidArgumentError(
                "a stream takes only one of proportion, repeat and choose, found "
                f"{' and '.join(given)}"
            )
        for name in given:
            value = getattr(self, name)
            if name == "choose":
                if not is_integer(value):
                    raise ArgumentTypeError(f"choose must be an integer, found {value!r}")
                if value < 0:
                    raise InvalidArgumentError(f"choose must be at least 0, found {value}")
            elif isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
                raise ArgumentTypeError(f"the {name} of a stream must be a number, found {value!r}")
            elif not 0 <= float(value) < float("inf"):
                raise InvalidArgumentError(
                    f"the {name} of a stream must be finite and not negative, found {value!r}"
                )

    @cached_property
    def num_samples(self) -> int:
        """Samples of the stream, each counted once."""
        return sum(self.shard_sizes)

    @property
    def weighting(self) -> str | None:
        """Name of the weighting argument that was passed, or None."""
        return next((name for name in _WEIGHTS if getattr(self, name) is not None), None)


@dataclass(frozen=True)
class StreamWeight:
    """A stream's part of an epoch: as a proportion, as repeats per sample, and as a sample count.

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
