"""Skip samples that cannot be read because a shard, row group, sample or image is damaged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.recorder import count
from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format import num_rows, take_values
from mdstorm_backend.read.block import Block, Located
from mdstorm_backend.read.sample_source import SampleSource
from mdstorm_backend.read.shard import Shard

#: The action for a sample that cannot be read.
OnCorrupt: TypeAlias = Literal["raise", "skip"]
ON_CORRUPT = ("raise", "skip")
#: Numbers of rows that were left out together, and why.
LeftOut: TypeAlias = Iterable[tuple[int, CorruptDatasetError]]
#: The same while it is collected.
_LeftOut: TypeAlias = list[tuple[int, CorruptDatasetError]]

_logger = logging.getLogger(__name__)

#: The errors that this process has logged, each with an object of the thread that logged it.
_logged: dict[str, object] = {}


class Damage:
    """The damage found during one iteration.

    Parameters
    ----------
    dataset : SampleSource
        The dataset that is read.
    columns : sequence of str
        The columns that are read.
    read : callable
        Reads samples as the iteration does, and raises CorruptDatasetError for damage.
    """

    def __init__(
        self,
        dataset: SampleSource,
        columns: Sequence[str],
        read: Callable[[Sequence[Located]], object],
    ) -> None:
        self._dataset = dataset
        self._columns = columns
        self._read = read
        #: Shards without a single readable sample; they are not opened again.
        self._shards: dict[int, CorruptDatasetError] = {}

    def check_shard(self, number: int) -> None:
        """Raise CorruptDatasetError if a shard is known to be damaged."""
        if number in self._shards:
            raise self._shards[number]

    def leave_out(self, block: Block) -> LeftOut:
        """Remove the damaged samples from a block that could not be read."""
        left_out: _LeftOut = []
        numbers = np.array(block.numbers(), np.int64)
        owners = self._dataset.located(numbers).owners()
        is_sound = np.ones(len(numbers), np.bool_)
        for owner in np.unique(owners).tolist():
            places = np.flatnonzero(owners == owner)
            is_sound[places] = self._sound_in(owner, numbers[places], left_out)
        sound = numbers[is_sound]
        block.parts = [self._located(sound)] if len(sound) else []
        block.sizes = _sizes_of(block.sizes, is_sound)
        return left_out

    def _sound_in(
        self, number: int, samples: npt.NDArray[np.int64], left_out: _LeftOut
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the samples in a shard that can be read; add others to `left_out`."""
        try:
            self.check_shard(number)
            self._dataset.shard(number).decoded(self._columns)
        except CorruptDatasetError as error:
            self._shards[number] = error
            left_out.append((len(samples), error))
            return np.zeros(len(samples), np.bool_)
        return self._bisect(samples, left_out)

    def _bisect(self, samples: npt.NDArray[np.int64], left_out: _LeftOut) -> npt.NDArray[np.bool_]:
        try:
            self._read([self._located(samples)])
        except CorruptDatasetError as error:
            if len(samples) == 1:
                left_out.append((1, error))
                return np.zeros(1, np.bool_)
            half = len(samples) // 2
            halves = samples[:half], samples[half:]
            return np.concatenate([self._bisect(one, left_out) for one in halves])
        return np.ones(len(samples), np.bool_)

    def _located(self, samples: npt.NDArray[np.int64]) -> Located:
        located = self._dataset.located(samples)
        shards: list[Shard] = [self._dataset.shard(number) for number in located.shard_numbers]
        located.shards = shards
        return located


def leave_out_rows(block: Block, damaged: Mapping[int, CorruptDatasetError]) -> LeftOut:
    """Remove rows from a block that has been read, given the error of each."""
    is_sound = np.ones(num_rows(block.batch), np.bool_)
    is_sound[list(damaged)] = False
    rows, numbers = np.flatnonzero(is_sound), block.numbers()
    if len(numbers) == len(is_sound):
        block.numbered = [numbers[row] for row in rows.tolist()]
    block.batch = {name: take_values(values, rows) for name, values in block.batch.items()}
    block.sizes = _sizes_of(block.sizes, is_sound)
    return [(1, error) for error in damaged.values()]


def _sizes_of(sizes: Sequence[int], is_kept: npt.NDArray[np.bool_]) -> list[int]:
    """Return the number of rows that are kept in each batch, given the sizes of all batches."""
    until = np.concatenate([[0], np.cumsum(is_kept)])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    return np.diff(until[ends]).tolist()  # type: ignore[no-any-return]


def record_skipped(rows: int, reason: str) -> None:
    """Count rows that were left out, and log the reason unless this process has logged it."""
    count("skipped", rows)
    mine = object()
    if _logged.setdefault(reason, mine) is mine:  # several threads may find the same damage
        _logger.warning('Samples were skipped because on_corrupt="skip": %s', reason)
