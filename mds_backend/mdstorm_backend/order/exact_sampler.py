"""`ExactSampler`: the samples of one rank in the ``exact`` order, batch by batch.

A position of this sampler is how many samples of the pass the whole world has consumed, see
`mdstorm_backend.order.lanes`. In one *step* each rank reads one batch, so each batch advances the
position by the samples of a step. Batches may span epochs; only the last ones of
a pass may be smaller than the others.

Nothing here is as long as an epoch: chunks, sizes and lengths are computed lazily from a place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, count, islice, repeat
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property
from mdstorm_backend.errors import NoDataAvailableError
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.lanes import EpochLanes, Lanes, Stretch, ceil_div
from mdstorm_backend.order.sampler import Chunk, Place, Sampler

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ExactSampler(Sampler):
    """The samples of one rank in the exact order: a `Sampler`.

    Positions are numbers of samples in the pass, see `mdstorm_backend.order.lanes`.

    Attributes
    ----------
    order : ExactOrder
        The order, with a fixed seed, and the rank.
    bounds : numpy.ndarray
        int64, number of the first sample of each shard, then the number of all samples.
    batch_size : int
        Samples in a batch of one rank.
    num_epochs : int or None
        Epochs of a pass; None for a pass that never ends.
    drop_last : bool
        Leave out batches that are not full.
    num_parts : int
        Number n of processes that share the batches: part k reads batches k, k + n, …
    """

    order: ExactOrder
    bounds: _Numbers
    batch_size: int
    num_epochs: int | None = 1
    drop_last: bool = False
    num_parts: int = 1
    spans_epochs: ClassVar[bool] = True

    @cached_property
    def num_samples(self) -> int:
        """Samples of an epoch over the whole world."""
        return int(self.bounds[-1])

    @cached_property
    def _stop(self) -> int | None:
        """The position at the end of a pass; None if it never ends."""
        return None if self.num_epochs is None else self.num_epochs * self.num_samples

    @cached_property
    def _step(self) -> int:
        """Samples of a step in which every rank has a full batch."""
        return self.order.world_size * self.batch_size

    @cached_property
    def _own_lanes(self) -> Lanes:
        padded_to = self.order.padded_to if self.num_epochs == 1 else 0
        return Lanes(0, self.order.world_size, padded_to)

    def begun(self, place: Place) -> Place:
        """Return `place`, with this world's lanes, for a pass that begins or resumes there.

        Raises
        ------
        NoDataAvailableError
            If too few rows are left for the ranks.
        """
        self.order.rows(self.num_samples)  # checks the number of ranks
        lanes, own = place.lanes, self._own_lanes
        is_recut = bool(lanes) and lanes[-1][1:] != own[1:]
        if is_recut:  # drop lanes that nobody has read from
            read = (one for one in lanes if one.consumed < place.consumed)
            lanes = (*read, own._replace(consumed=place.consumed))
        begun = replace(place, first_epoch=place.pass_epoch, lanes=lanes, seed=self.order.seed)
        if begun.is_end or self._stop is None:
            return begun
        left, size = self._stop - self.position(begun), self.order.world_size
        # Any pass in batches of one row gets here: the last batch of some ranks is empty.
        is_refused = is_recut or self.batch_size > 1
        if 0 < left < size and is_refused and not own.padded_to and not self.drop_last:
            raise NoDataAvailableError(
                f"only {left} rows are left of this pass, for {size} ranks: resume on at most as "
                "many ranks as rows, or begin the next epoch on all of them, without this state"
            )
        return begun

    def position(self, place: Place) -> int:
        """Return how many samples of the pass the world has consumed at a place."""
        return (place.epoch - place.pass_epoch) * self.num_samples + place.consumed

    def place(self, begun: Place, position: int) -> Place:
        """Return the place of a position in a pass that began at `begun`."""
        first_epoch, num_samples = begun.pass_epoch, max(self.num_samples, 1)
        passed = max(position - 1, 0) // num_samples
        epoch, consumed = first_epoch + passed, position - passed * num_samples
        lanes: tuple[Lanes, ...] = ()
        if 0 < consumed < num_samples:
            lanes = begun.lanes if epoch == begun.epoch else ()
            lanes = lanes or (self._own_lanes,)
        return replace(
            begun, epoch=epoch, consumed=consumed, first_epoch=first_epoch, lanes=lanes, end=None
        )

    def advanced(self, position: int, mark: object = None) -> int:
        """Return the position after one more batch on each rank.

        If fewer samples than ranks would be left after the last full batch, all ranks halve that
        batch, so that no rank has an empty one.
        """
        after, stop, size = position + self._step, self._stop, self.order.world_size
        if stop is None or after + size <= stop:
            return after
        if after >= stop:
            return stop
        if self.batch_size == 1 or self.drop_last or self._own_lanes.padded_to:
            return after
        return position + size * ceil_div(self.batch_size, 2)

    def end(self, begun: Place) -> int:
        """Return the position at the end of a pass; that of `begun` if it never ends."""
        return self.position(begun) if self._stop is None else self._stop

    @property
    def rows_per_epoch(self) -> int:
        """Samples of this rank in the first epoch; other epochs may have one more or less."""
        return len(self.order.rows(self.num_samples))

    def length(self) -> int:
        """Return the number of batches of a whole pass.

        Raises
        ------
        TypeError
            If epochs never end.
        """
        self.order.rows(self.num_samples)  # checks the number of ranks
        return self.num_batches(Place())

    def has_batches(self, place: Place) -> bool:
        """Whether there are batches from a place on."""
        is_left = self._stop is None or self.num_batches(place) > 0
        return is_left and self.num_samples > 0 and not place.is_end

    def milestone(self, begun: Place, position: int) -> int:
        """Return the position after the first sample of the next epoch."""
        num_samples = max(self.num_samples, 1)
        return max(ceil_div(position, num_samples), 1) * num_samples + 1

    @property
    def num_ranks(self) -> int:
        """Number of ranks that read different samples."""
        return self.order.world_size

    def after_samples(self, begun: Place, samples: int) -> int:
        """Return the position after every rank has read so many samples."""
        position, stop = self.position(begun), self._stop
        after = position + samples * self.order.world_size
        if stop is None:
            return after
        # In the last step, some ranks may have fewer samples than others.
        deal = self._lanes_at(begun, position).deal
        is_end = samples and samples >= deal.num_positions(self.order.rank, position, stop)
        return stop if is_end else min(after, stop)

    def part(
        self, place: Place, part: int = 0, skipped: int = 0
    ) -> tuple[Iterator[Chunk], Iterator[int]]:
        """Return the chunks of a part from a place on, and the sizes of its batches."""
        chunks = self._chunks(place)
        if self.num_parts > 1:
            chunks = cut(chunks, self._sizes(place), part, self.num_parts)
        return chunks, islice(self._sizes(place), part, None, self.num_parts)

    def after_part(
        self, place: Place, skipped: int, part: int, mark: int
    ) -> tuple[Place, int, int]:
        """Return where a part resumes after a batch: a batch of each other part comes first."""
        position = self.position(place)
        for _ in range(part + 1):
            position = self.advanced(position, mark)
        return self.place(place, position), 0, self.num_parts - 1

    def num_batches(self, place: Place) -> int:
        """Return the number of batches from a place to the end of the pass, equal on all ranks.

        Raises
        ------
        TypeError
            If epochs never end.
        """
        if self._stop is None:
            raise TypeError(
                "num_epochs=None never ends, so there is no number of batches: pass num_epochs=1"
            )
        left = self._stop - self.position(place)
        return left // self._step if self.drop_last else ceil_div(left, self._step)

    def _sizes(self, place: Place) -> Iterator[int]:
        if self._stop is None:
            return repeat(self.batch_size)
        position = self.position(place)
        full = (self._stop - position) // self._step
        if self.drop_last:
            return repeat(self.batch_size, full)
        full = max(full - 1, 0)  # the last full one may be halved
        last = self._last_sizes(place, position + full * self._step)
        return chain(repeat(self.batch_size, full), last)

    def _last_sizes(self, place: Place, position: int) -> Iterator[int]:
        assert self._stop is not None
        while position < self._stop:
            after = self.advanced(position)
            deal = self._lanes_at(place, position).deal
            yield deal.num_positions(self.order.rank, position, after)
            position = after

    def _lanes_at(self, begun: Place, position: int) -> EpochLanes:
        """Return the lanes of the epoch that contains the sample at a position."""
        epoch = position // max(self.num_samples, 1)
        is_begun = epoch + begun.pass_epoch == begun.epoch
        lanes = (begun.lanes if is_begun else ()) or (self._own_lanes,)
        stop = self._stop if self._own_lanes.padded_to else None
        return EpochLanes(self.num_samples, epoch * self.num_samples, stop, lanes)

    def _chunks(self, begun: Place) -> Iterator[Chunk]:
        position, rank = self.position(begun), self.order.rank
        first_epoch = begun.pass_epoch
        first = position // max(self.num_samples, 1)
        for epoch in count(first) if self.num_epochs is None else range(first, self.num_epochs):
            lanes, number = self._lanes_at(begun, epoch * self.num_samples), first_epoch + epoch
            consumed = max(position - epoch * self.num_samples, 0)
            rests = [Stretch(rank, 0, len(lanes.first_lane(rank)))] if not consumed else None
            for lane, start, stop in rests or lanes.rest(rank, consumed):
                rows, used = lanes.first_lane(lane), range(start, stop)
                yield from self.order.chunks(self.bounds, rows, number, used)


def cut(chunks: Iterator[Chunk], sizes: Iterator[int], part: int, parts: int) -> Iterator[Chunk]:
    """Yield the samples of every `parts`-th batch, beginning with batch number `part`."""
    chunk: Chunk = range(0)
    for number, size in enumerate(sizes):
        while size:
            while not len(chunk):
                chunk = next(chunks)
            taken, chunk = chunk[:size], chunk[size:]
            size -= len(taken)
            if number % parts == part:
                yield taken
