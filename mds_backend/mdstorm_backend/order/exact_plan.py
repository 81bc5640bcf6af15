"""`ExactPlan`: the batches of one rank in the ``exact`` order.

It counts how many samples of the pass the whole world has consumed: see
`mdstorm_backend.order.lanes`. In one *step*, each rank reads one batch. Batches may span epochs;
only the last batches of a pass may be smaller than the others.

No array or list here is as long as an epoch: chunks, sizes and lengths are computed lazily.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, count, islice, repeat
from typing import Any

import numpy as np

from mdstorm_backend.base import cached_property
from mdstorm_backend.errors import NoDataAvailableError
from mdstorm_backend.order.chunk import Chunk, Numbers, RowsInTurn, RowsOnDemand, numbers_of
from mdstorm_backend.order.lane_order import LaneOrder
from mdstorm_backend.order.lanes import EpochLanes, Lanes, ceil_div
from mdstorm_backend.order.plan import Plan, Position, Samples
from mdstorm_backend.order.state_values import damaged, rule_of
from mdstorm_backend.order.turns import AT_ONCE


@dataclass(frozen=True, eq=False)
class ExactPlan(Plan):
    """One rank's batches in the exact order: a `Plan` up to the end of the pass.

    The offset of a batch is its number, from 1. Positions are numbers of samples in the pass: see
    `mdstorm_backend.order.lanes`.

    Attributes
    ----------
    order : LaneOrder
        The order, with a fixed seed, and the rank.
    bounds : numpy.ndarray
        int64, number of each shard's first sample, then the total number of samples.
    """

    order: LaneOrder
    bounds: Numbers

    @cached_property
    def num_samples(self) -> int:
        """Number of samples in an epoch, over all ranks."""
        return int(self.bounds[-1])

    @cached_property
    def _stop(self) -> int | None:
        """The number of consumed samples at the end of a pass; None if it never ends."""
        num_epochs = self.batching.num_epochs
        return None if num_epochs is None else num_epochs * self.num_samples

    @cached_property
    def _step(self) -> int:
        """Number of samples in a step in which every rank has a full batch."""
        return self.order.world_size * self.batching.size

    @cached_property
    def _own_lanes(self) -> Lanes:
        padded_to = self.order.padded_to if self.batching.num_epochs == 1 else 0
        return Lanes(0, self.order.world_size, padded_to)

    @cached_property
    def resolved_start(self) -> Position:
        """The position where the plan begins, with this world's lanes.

        Raises
        ------
        NoDataAvailableError
            If too few rows remain for the ranks.
        """
        position = self.start
        self.order.rows(self.num_samples)  # checks the number of ranks
        lanes, own = position.lanes, self._own_lanes
        is_recut = bool(lanes) and lanes[-1][1:] != own[1:]
        if is_recut:  # drop lanes that no rank has read from
            read = (one for one in lanes if one.consumed < position.consumed)
            lanes = (*read, own._replace(consumed=position.consumed))
        begin = replace(
            position,
            first_epoch=position.pass_epoch,
            lanes=lanes,
            seed=self.order.seed,
            rule=self.order.rule,
        )
        if begin.is_end or self._stop is None:
            return begin
        left, size = self._stop - self._done(begin), self.order.world_size
        # With batch_size=1, fewer rows than ranks may remain even without a change of the world.
        # Then no error is raised, and the last batch of some ranks is empty.
        is_refused = is_recut or self.batching.size > 1
        if 0 < left < size and is_refused and not own.padded_to and not self.batching.drop_last:
            raise NoDataAvailableError(
                f"only {left} rows remain in this pass, for {size} ranks: resume on at most {left} "
                "ranks, or begin the next epoch on all ranks without this state"
            )
        return begin

    def _done(self, position: Position) -> int:
        """Return how many samples of the pass the world has consumed at a position."""
        return (position.epoch - position.pass_epoch) * self.num_samples + position.consumed

    @cached_property
    def _first(self) -> int:
        """The number of consumed samples when the plan begins."""
        return self._done(self.resolved_start)

    def _position_at(self, done: int) -> Position:
        """Return the position after `done` samples, with no `end`, since the pass may continue."""
        begin, num_samples = self.resolved_start, max(self.num_samples, 1)
        passed = max(done - 1, 0) // num_samples
        epoch, consumed = begin.pass_epoch + passed, done - passed * num_samples
        lanes: tuple[Lanes, ...] = ()
        if 0 < consumed < num_samples:
            lanes = begin.lanes if epoch == begin.epoch else ()
            lanes = lanes or (self._own_lanes,)
        return begin.advanced(epoch, consumed, lanes=lanes)

    def position(self, offset: int) -> Position:
        """Return the position after a number of batches on each rank."""
        if not offset:
            return self.resolved_start
        count = self.num_batches()
        if count is not None and offset >= count:
            return self.end()
        return self._position_at(self._after(offset))

    def end(self) -> Position:
        """Return the position at the end of the pass; `resolved_start` if it never ends."""
        return self.resolved_start if self._stop is None else self._position_at(self._stop).ended()

    def resumed(self, ours: Mapping[str, Any]) -> Position:
        """Return where a state resumes, after checking that a pass can reach it."""
        position, num_rows = super().resumed(ours), self.num_samples
        if position.consumed > num_rows:
            raise damaged(f"it is {position.consumed} samples into an epoch of {num_rows}")
        if position.lanes:
            self._check_lanes()
        elif 0 < position.consumed < num_rows and not position.is_end:
            raise damaged("it does not contain the lanes of its epoch: 'lanes' is empty")
        _ = self.resolved_start  # raises if too few rows remain
        return replace(position, rule=rule_of(ours))

    def state_keys(self, position: Position) -> dict[str, Any]:
        """Return the number of the rule."""
        return {"rule": self.order.rule if position.rule is None else position.rule}

    def _check_lanes(self) -> None:
        """Raise StateMismatchError for lanes that no pass has where the plan starts."""
        lanes, consumed = self.start.lanes, self.start.consumed
        starts = [one.consumed for one in lanes]
        if starts[0] or starts != sorted(set(starts)) or starts[-1] > consumed:
            raise damaged(
                f"lanes that begin after {starts} samples do not match a position after {consumed} "
                "samples"
            )
        if (most := max(one.size for one in lanes)) > self.num_samples:
            raise damaged(f"it refers to {most} ranks, but there are only {self.num_samples} rows")

    def _after(self, offset: int) -> int:
        """Return the number of samples consumed after `offset` batches on each rank."""
        full = offset if self._num_full is None else min(offset, self._num_full)
        done = self._first + full * self._step
        for _ in range(offset - full):
            done = self._stepped(done)
        return done

    @cached_property
    def _num_full(self) -> int | None:
        """Number of batches, from the first on, that are certain to be full; None if all are."""
        if self._stop is None:
            return None
        full = (self._stop - self._first) // self._step
        # The last full batch may be halved.
        return full if self.batching.drop_last else max(full - 1, 0)

    def _stepped(self, done: int) -> int:
        """Return the number of samples consumed after one more batch on each rank.

        If fewer samples than ranks would remain after the last full batch, all ranks halve that
        batch, so that no rank has an empty batch.
        """
        after, stop, size = done + self._step, self._stop, self.order.world_size
        if stop is None or after + size <= stop:
            return after
        if after >= stop:
            return stop
        if self.batching.size == 1 or self.batching.drop_last or self._own_lanes.padded_to:
            return after
        return done + size * ceil_div(self.batching.size, 2)

    @property
    def rows_per_epoch(self) -> int:
        """Number of this rank's samples in the first epoch; other epochs may differ by one."""
        return len(self.order.rows(self.num_samples))

    def epoch_sizes(self) -> Iterator[int]:
        """Yield the number of this rank's samples in each epoch, from the plan's beginning on."""
        for start in self._starts():
            done, stop = max(self._first, start), start + self.num_samples
            yield self._lanes_at(start).num_dealt(self.order.rank, done, stop)

    def num_batches(self) -> int | None:
        """Return the number of batches, the same on all ranks; None if the pass never ends."""
        if self.resolved_start.is_end or not self.num_samples:
            return 0
        if self._stop is None:
            return None
        left = self._stop - self._first
        return left // self._step if self.batching.drop_last else ceil_div(left, self._step)

    def offset_after_epoch(self, epoch: int) -> int:
        """Return the number, from 1, of the first batch that has samples from after `epoch`."""
        stop = (epoch + 1 - self.resolved_start.pass_epoch) * self.num_samples
        return (stop - self._first) // self._step + 1

    def reached(self, samples: int, *, from_beginning: bool = False) -> Position:
        """Return the position after all ranks together have read this many samples."""
        if not (samples or from_beginning):
            return self.resolved_start  # which may be an end of another world
        after = samples if from_beginning else self._first + samples
        # `samples` may be too large if a rank that has one sample more than others computed it.
        return self._position_at(after if self._stop is None else min(after, self._stop))

    def samples(self, part: int | None = 0) -> Samples:
        """Return the samples and batches of a part; for None, those of all parts in turn."""
        chunks, sizes, parts = self._chunks(), self._sizes(), self.batching.num_parts
        if part is None or parts == 1:
            return Samples(chunks, sizes, count(1))
        chunks = cut(chunks, self._sizes(), part, parts)
        return Samples(chunks, islice(sizes, part, None, parts), count(part + 1, parts))

    def _sizes(self) -> Iterator[int]:
        if self._num_full is None:
            return repeat(self.batching.size)
        return chain(repeat(self.batching.size, self._num_full), self._last_sizes())

    def _last_sizes(self) -> Iterator[int]:
        """Yield the sizes of the batches after the ones that are certain to be full."""
        if self._num_full is None or self._stop is None or self.batching.drop_last:
            return
        done = self._first + self._num_full * self._step
        while done < self._stop:
            after = self._stepped(done)
            yield self._lanes_at(done).num_dealt(self.order.rank, done, after)
            done = after

    def _lanes_at(self, done: int) -> EpochLanes:
        """Return the lanes of the epoch that contains the sample after the first `done` samples."""
        begin, epoch = self.resolved_start, done // max(self.num_samples, 1)
        is_begun = epoch + begin.pass_epoch == begin.epoch
        lanes = (begin.lanes if is_begun else ()) or (self._own_lanes,)
        at_once = AT_ONCE if begin.rule else 1
        return EpochLanes(self.num_samples, epoch * self.num_samples, self._stop, lanes, at_once)

    def _chunks(self) -> Iterator[Chunk]:
        rank, first_epoch = self.order.rank, self.resolved_start.pass_epoch
        for start in self._starts():
            lanes, consumed = self._lanes_at(start), max(self._first - start, 0)
            epoch = first_epoch + start // self.num_samples
            for turns in lanes.remaining(rank, consumed):
                parts = [
                    self.order.chunks(self.bounds, lanes.first_lane(lane), epoch, lane, used)
                    for lane, used in turns.parts()
                ]
                yield from parts[0] if len(parts) == 1 else self._in_turns(parts, turns.owners())

    def _in_turns(self, parts: list[Iterator[Chunk]], turns: Iterator[Numbers]) -> Iterator[Chunk]:
        """Yield the samples of several parts, of which `turns` number the part of each sample."""
        ahead: list[Chunk] = [range(0)] * len(parts)
        for owners in turns:
            numbers, shards = np.empty(len(owners), np.int64), []
            for part, chunks in enumerate(parts):
                places = np.flatnonzero(owners == part)
                while len(places):
                    while not len(ahead[part]):
                        ahead[part] = next(chunks)
                    taken, ahead[part] = ahead[part][: len(places)], ahead[part][len(places) :]
                    numbers[places[: len(taken)]] = numbers_of(taken)
                    shards.append(self._shards_of(taken))
                    places = places[len(taken) :]
            if shards:
                yield RowsInTurn(numbers, np.unique(np.concatenate(shards)))

    def _shards_of(self, chunk: Chunk) -> Numbers:
        """Return the shards of a chunk, and of its window."""
        if isinstance(chunk, RowsOnDemand):
            return chunk.window.shards
        return np.unique(np.searchsorted(self.bounds, numbers_of(chunk), side="right") - 1)

    def _starts(self) -> Iterator[int]:
        """Yield the number in the pass of the first sample of each epoch that the plan reads."""
        size, stop = self.num_samples, self._stop
        first = self._first // max(size, 1) * size
        return count(first, size) if stop is None else iter(range(first, stop, max(size, 1)))


def cut(chunks: Iterator[Chunk], sizes: Iterator[int], part: int, parts: int) -> Iterator[Chunk]:
    """Yield the samples in every `parts`-th batch, beginning with batch number `part`."""
    chunk: Chunk = range(0)
    for number, size in enumerate(sizes):
        while size:
            while not len(chunk):
                chunk = next(chunks)
            taken, chunk = chunk[:size], chunk[size:]
            size -= len(taken)
            if number % parts == part:
                yield taken
