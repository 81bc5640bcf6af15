"""The ``exact`` order: every row exactly once per epoch, over all ranks together.

Each rank reads a contiguous lane of the stored order, whatever the seed: see
`mdstorm_backend.order.lanes`. Within a lane, shards can be shuffled, and rows within windows of
whole shards, both differently in each epoch.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, count, islice, repeat
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.base.checks import check_integer
from mdstorm_backend.base.work_ahead import WorkAhead
from mdstorm_backend.errors import NoDataAvailableError
from mdstorm_backend.order.lanes import EpochLanes, Lanes, Stretch, ceil_div
from mdstorm_backend.order.sampler import Chunk, Place, Sampler
from mdstorm_backend.order.world import World

#: The seed of all ranks if none is given: all must permute by the same one, or a state taken on one
#: rank would lose and repeat rows on another. MosaicML Streaming has the same default.
DEFAULT_SEED = 9176

_SHARDS, _ROWS = 0, 1
#: From so many rows on, to permute a window takes longer than to read a few batches.
_MANY = 1 << 17

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ExactOrder:
    """The order in which one rank reads its rows.

    Attributes
    ----------
    seed : int or None
        Seed of all permutations. None and 0: see `resolved`.
    shuffle_shards : bool
        Whether to shuffle the shards of the rank.
    shuffle_rows : bool
        Whether to shuffle the rows within each shard.
    window : int
        Rows are shuffled within windows of whole shards with at least this many rows. 0 means no
        windows.
    rank, world_size : int
        Select the share of the rows to read.
    follows_world : bool or None
        Whether the share is determined when a pass begins: see `share_of`. None, the default, means
        yes for a `StreamingDataset` unless `world_size` is passed, and no for everything else.
    padded_to : int
        Rows per batch if, in passes of one epoch, only the last batch of all ranks together is to
        need padding: its rows fill the batch of one rank after the other. 0: ranks have equal
        numbers of rows, or one more.

    Examples
    --------
    The share of rank 1 of 3 in a dataset of ten rows:

    >>> from mdstorm_backend import MDSWriter, open_dataset
    >>> with MDSWriter(out="/tmp/ten", columns={"x": "int"}) as writer:
    ...     for x in range(10):
    ...         writer.write({"x": x})
    >>> order = ExactOrder(rank=1, world_size=3)
    >>> [batch["x"].tolist() for batch in open_dataset("/tmp/ten").batches(4, order=order)]
    [[4, 5, 6]]
    """

    seed: int | None = None
    shuffle_shards: bool = False
    shuffle_rows: bool = False
    window: int = 0
    rank: int = 0
    world_size: int = 1
    follows_world: bool | None = None
    padded_to: int = 0

    def __post_init__(self) -> None:
        check_integer("seed", self.seed, lowest=0)
        for name in ("seed", "window", "rank", "world_size"):
            value = getattr(self, name)
            if isinstance(value, np.integer):  # not JSON serializable, as states must be
                object.__setattr__(self, name, int(value))
        World(self.rank, self.world_size)  # which checks them

    #: Its name in states and messages.
    name: ClassVar[str] = "exact"
    #: What states say that were taken before the first epoch.
    before_first_epoch: ClassVar[int] = 0
    #: Whether states are refused by any other way of reading, also between epochs.
    is_strict: ClassVar[bool] = True
    #: Whether the seed decides which samples a rank has in an epoch.
    deals_by_seed: ClassVar[bool] = False

    @property
    def world(self) -> World:
        """The rank, and how many there are."""
        return World(self.rank, self.world_size)

    @property
    def shuffles_anything(self) -> bool:
        """Whether a seed has any effect."""
        return self.shuffles or self.shuffle_shards

    @property
    def sequence(self) -> str:
        """What it does, in a few words."""
        shuffles = (("shards", self.shuffle_shards), ("rows", self.shuffles))
        shuffled = [what for what, is_shuffled in shuffles if is_shuffled]
        if not shuffled:
            return "exact order, sequential"
        seed = self.seed or (DEFAULT_SEED if self.is_share else "drawn at random")
        return f"exact order, {' and '.join(shuffled)} shuffled, seed {seed}"

    def rows_of_rank(self, num_rows: int) -> int | None:
        """Return how many rows this rank has; None where there are too few for all ranks."""
        return None if num_rows < self.world_size else len(self.rows(num_rows))

    def state_keys(self, place: Place) -> dict[str, Any]:
        """Return MosaicML Streaming's keys of a state, as they say most here."""
        size, seed = self.world_size, self.seed if place.seed is None else place.seed
        return {
            "num_canonical_nodes": size,
            "shuffle_seed": seed,
            "initial_physical_nodes": size,
        }

    def settings(self, shard_sizes: Sequence[int]) -> dict[str, Any]:
        """Return what else decides the samples of an epoch, in plain values."""
        return {"shuffle": [self.shuffle_shards, self.shuffle_rows, self.window]}

    @property
    def shuffles(self) -> bool:
        """Whether rows are shuffled within shards."""
        return self.shuffle_rows or self.window > 0

    @property
    def is_share(self) -> bool:
        """Whether other processes are known to read other rows."""
        return self.follows_world or self.world_size > 1

    def share_of(self, world: World) -> ExactOrder:
        """Return the same order with the share of a process in `world`."""
        return replace(self, rank=world.rank, world_size=world.size, follows_world=False)

    def resolved(self) -> ExactOrder:
        """Return the same order with a fixed seed.

        Without one, a share of the rows has `DEFAULT_SEED`, the same on all ranks; otherwise one is
        drawn from the operating system.
        """
        if self.seed:
            return self
        return replace(self, seed=DEFAULT_SEED if self.is_share else secrets.randbits(63) | 1)

    def rows(self, num_rows: int, first_place: int = 0) -> range:
        """Return this rank's rows of an epoch that begins at a place of its pass.

        Raises
        ------
        NoDataAvailableError
            If there are fewer rows than ranks, but some.
        """
        if 0 < num_rows < self.world_size:
            raise NoDataAvailableError(
                f"Number of row-groups in the dataset must be greater or equal to the number of "
                f"requested shards: there are {num_rows} rows for {self.world_size} ranks. Use "
                "fewer ranks or more data"
            )
        lanes = Lanes(0, self.world_size, self.padded_to)
        stop = num_rows if self.padded_to else None
        return EpochLanes(num_rows, first_place, stop, (lanes,)).first_lane(self.rank)

    def pieces(self, bounds: _Numbers, rows: range, epoch: int) -> list[range]:
        """Return the part of each shard among some rows, in the order of `epoch`.

        Parameters
        ----------
        bounds : numpy.ndarray
            int64, number of the first row of each shard, and of all rows.
        rows : range
            The rows, as `rows` returns them.
        epoch : int
            Number of the epoch.
        """
        starts, stops = self._pieces(bounds, rows, epoch)
        return [range(*piece) for piece in zip(starts.tolist(), stops.tolist(), strict=True)]

    def _pieces(self, bounds: _Numbers, rows: range, epoch: int) -> tuple[_Numbers, _Numbers]:
        first = int(np.searchsorted(bounds, rows.start, side="right")) - 1
        last = int(np.searchsorted(bounds, rows.stop, side="left"))
        cuts = np.clip(bounds[max(first, 0) : last + 1], rows.start, rows.stop)
        starts, stops = cuts[:-1], cuts[1:]
        if (is_empty := stops == starts).any():
            starts, stops = starts[~is_empty], stops[~is_empty]
        if self.shuffle_shards:
            chosen = self._generator(epoch, _SHARDS).permutation(len(starts))
            starts, stops = starts[chosen], stops[chosen]
        return starts, stops

    def chunks(
        self,
        bounds: _Numbers,
        rows: range,
        epoch: int,
        used: range,
        ahead: WorkAhead[_Numbers] | None = None,
        at_last: Callable[[], None] | None = None,
    ) -> Iterator[Chunk]:
        """Yield the numbers of some rows in the order of `epoch`, a window at a time.

        Parameters
        ----------
        bounds, rows, epoch
            See `pieces`.
        used : range
            Which of them, by their position in that order.
        ahead : WorkAhead, optional
            Permutes the next window while one is read.
        at_last : callable, optional
            Called before the last window is yielded, where rows are shuffled.
        """
        if not self.shuffles and not self.shuffle_shards:
            yield range(rows.start + used.start, rows.start + used.stop)
            return
        windows = self._windows(bounds, rows, epoch, used)
        following = next(windows, None)
        while (window := following) is not None:
            following = next(windows, None)
            low, high = max(used.start - window.begin, 0), used.stop - window.begin
            if not self.shuffles:
                start = int(window.starts[0])
                yield range(start + low, start + min(high, window.size))
                continue
            permuted = window.permuted() if ahead is None else window.made_by(ahead)
            if following is not None and ahead is not None:
                following.begun_by(ahead)
            elif following is None and at_last is not None:
                at_last()
            yield permuted[low:high]

    def prepare(
        self, bounds: _Numbers, rows: range, epoch: int, ahead: WorkAhead[_Numbers]
    ) -> None:
        """Have a thread permute the first window of an epoch."""
        if self.shuffles:
            for window in islice(self._windows(bounds, rows, epoch, range(len(rows))), 1):
                window.begun_by(ahead)

    def _windows(self, bounds: _Numbers, rows: range, epoch: int, used: range) -> Iterator[_Window]:
        """Yield the windows that hold used rows; without shuffled rows, each shard is one."""
        starts, stops = self._pieces(bounds, rows, epoch)
        ends = np.cumsum(stops - starts)
        begin = number = first = 0
        while first < len(ends) and begin < used.stop:
            last = max(int(np.searchsorted(ends, begin + self.window)), first)
            last = min(last, len(ends) - 1)
            end, chosen = int(ends[last]), slice(first, last + 1)
            if end > used.start:
                yield _Window(self, rows, epoch, number, begin, starts[chosen], stops[chosen])
            begin, first, number = end, last + 1, number + 1

    def permutation(self, num_rows: int, epoch: int, number: int) -> _Numbers:
        """Return the permutation of the rows of window `number` of `epoch`."""
        found: _Numbers = self._generator(epoch, _ROWS, number).permutation(num_rows)
        return found

    def _generator(self, *stream: int) -> np.random.Generator:
        assert self.seed, "resolved() has not been called"
        return np.random.default_rng([self.seed, *stream])


class _Window(NamedTuple):
    """Window number `number` of a lane: pieces of shards, after `begin` other rows of it."""

    order: ExactOrder
    rows: range
    epoch: int
    number: int
    begin: int
    starts: _Numbers
    stops: _Numbers

    @property
    def size(self) -> int:
        """Rows in the window."""
        return int((self.stops - self.starts).sum())

    def permuted(self) -> _Numbers:
        """Return the numbers of its rows, permuted."""
        chosen, starts = self.order.permutation(self.size, self.epoch, self.number), self.starts
        if bool((starts[1:] == self.stops[:-1]).all()):
            chosen += starts[0]
            return chosen
        sizes = self.stops - starts
        numbers = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        numbers += np.arange(len(numbers))
        found: _Numbers = numbers[chosen]
        return found

    def made_by(self, ahead: WorkAhead[_Numbers]) -> _Numbers:
        """Return what `permuted` does, where a thread may have begun to make it."""
        return self.permuted() if self.size < _MANY else ahead.get(self[:4], self.permuted)

    def begun_by(self, ahead: WorkAhead[_Numbers]) -> None:
        """Have a thread permute it, if that takes long."""
        if self.size >= _MANY:
            ahead.begin(self[:4], self.permuted)


@dataclass(frozen=True, eq=False)
class ExactSampler(Sampler):
    """The samples of one rank in the exact order: a `Sampler`.

    Its positions are places of the pass, see `mdstorm_backend.order.lanes`.

    Attributes
    ----------
    order : ExactOrder
        The order, with a fixed seed, and the rank.
    bounds : numpy.ndarray
        int64, number of the first sample of each shard, and of all samples.
    batch_size : int
        Samples of a batch of one rank.
    num_epochs : int or None
        Epochs of a pass; None never ends.
    drop_last : bool
        Leave out batches that are not full.
    num_parts : int
        Processes that share the batches: part k has the batches k, k + n, …
    ahead : WorkAhead
        Permutes large windows, and the first one of the next epoch, ahead of use.
    """

    order: ExactOrder
    bounds: _Numbers
    batch_size: int
    num_epochs: int | None = 1
    drop_last: bool = False
    num_parts: int = 1
    ahead: WorkAhead[_Numbers] = field(default_factory=WorkAhead)
    spans_epochs: ClassVar[bool] = True

    @cached_property
    def num_samples(self) -> int:
        """Samples of an epoch."""
        return int(self.bounds[-1])

    @cached_property
    def _stop(self) -> int | None:
        """The place after the last one of a pass."""
        return None if self.num_epochs is None else self.num_epochs * self.num_samples

    @cached_property
    def _step(self) -> int:
        """Samples that all ranks together have in a full batch of each."""
        return self.order.world_size * self.batch_size

    @cached_property
    def _own_lanes(self) -> Lanes:
        padded_to = self.order.padded_to if self.num_epochs == 1 else 0
        return Lanes(0, self.order.world_size, padded_to)

    def begun(self, place: Place) -> Place:
        """Return the same place for a pass that goes on there in this world.

        Raises
        ------
        NoDataAvailableError
            If too few rows are left for its ranks.
        """
        self.order.rows(self.num_samples)  # checks the number of ranks
        lanes, own = place.lanes, self._own_lanes
        if lanes and lanes[-1][1:] != own[1:]:
            lanes = (*lanes, own._replace(consumed=place.consumed))
        first_epoch = place.pass_epoch
        begun = Place(
            place.epoch, place.consumed, first_epoch, lanes, self.order.seed, end=place.end
        )
        if begun.is_end:
            return begun
        if self._stop is None:
            return begun
        left, size = self._stop - self.position(begun), self.order.world_size
        if 0 < left < size and not own.padded_to and not self.drop_last:
            raise NoDataAvailableError(
                f"only {left} rows are left of this pass, for {size} ranks: resume on at most as "
                "many ranks as rows, or begin the next epoch on all of them, without this state"
            )
        return begun

    def position(self, place: Place) -> int:
        """Return how many samples of its pass the world has had at a place."""
        first = place.pass_epoch
        return (place.epoch - first) * self.num_samples + place.consumed

    def place(self, begun: Place, position: int) -> Place:
        """Return the place of a position in a pass that has begun at another place."""
        first_epoch, num_samples = begun.pass_epoch, max(self.num_samples, 1)
        passed = max(position - 1, 0) // num_samples
        epoch, consumed = first_epoch + passed, position - passed * num_samples
        lanes: tuple[Lanes, ...] = ()
        if 0 < consumed < num_samples:
            lanes = begun.lanes if epoch == begun.epoch else ()
            lanes = lanes or (self._own_lanes,)
        return Place(epoch, consumed, first_epoch, lanes, begun.seed)

    def advanced(self, position: int, mark: object = None) -> int:
        """Return the position after a batch of each rank.

        Where the samples after the last full batch are fewer than ranks, all ranks halve that
        batch, so that none of them is empty.
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
        """Return the position of the end of a pass."""
        return self.position(begun) if self._stop is None else self._stop

    @property
    def rows_per_epoch(self) -> int:
        """Samples of this rank in the first epoch of a pass; in others one more or less."""
        return len(self.order.rows(self.num_samples))

    def length(self) -> int:
        """Batches of a whole pass.

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

    def is_over(self, place: Place) -> bool:
        """Whether a pass has delivered its last batch."""
        return not self.has_batches(place)

    def milestone(self, begun: Place, position: int) -> int:
        """Return the position from which on another epoch is read."""
        num_samples = max(self.num_samples, 1)
        return max(ceil_div(position, num_samples), 1) * num_samples + 1

    @property
    def num_ranks(self) -> int:
        """Number of ranks that see different samples."""
        return self.order.world_size

    def after_samples(self, begun: Place, samples: int) -> int:
        """Return the position after so many samples of this rank, and of each other."""
        position, stop = self.position(begun), self._stop
        after = position + samples * self.order.world_size
        if stop is None:
            return after
        # The last step may have a sample for some ranks only.
        deal = self._lanes_at(begun, position).deal
        is_end = samples and samples >= deal.num_places(self.order.rank, position, stop)
        return stop if is_end else min(after, stop)

    def part(
        self, place: Place, part: int = 0, skipped: int = 0
    ) -> tuple[Iterator[Chunk], Iterator[int]]:
        """Return the numbers of the samples of a part from a place on, and its batches' sizes."""
        return self.chunks(place, part), self.sizes(place, part)

    def after_part(
        self, place: Place, skipped: int, part: int, mark: int
    ) -> tuple[Place, int, int]:
        """Return where a part goes on after its first batch: the others' come before its next."""
        position = self.position(place)
        for _ in range(part + 1):
            position = self.advanced(position, mark)
        return self.place(place, position), 0, self.num_parts - 1

    def num_batches(self, place: Place) -> int:
        """Batches from a place up to the end of the pass, the same number on every rank.

        Raises
        ------
        TypeError
            If epochs never end.
        """
        if self._stop is None:
            raise TypeError("the number of batches is not known: num_epochs=None never ends")
        left = self._stop - self.position(place)
        return left // self._step if self.drop_last else ceil_div(left, self._step)

    def sizes(self, place: Place, part: int = 0) -> Iterator[int]:
        """Yield the samples of each batch of a part, from a place on."""
        return islice(self._sizes(place), part, None, self.num_parts)

    def _sizes(self, place: Place) -> Iterator[int]:
        if self._stop is None:
            return repeat(self.batch_size)
        position = self.position(place)
        full = (self._stop - position) // self._step
        if self.drop_last:
            return repeat(self.batch_size, full)
        full = max(full - 1, 0)  # the last one may be halved
        last = self._last_sizes(place, position + full * self._step)
        return chain(repeat(self.batch_size, full), last)

    def _last_sizes(self, place: Place, position: int) -> Iterator[int]:
        assert self._stop is not None
        while position < self._stop:
            after = self.advanced(position)
            deal = self._lanes_at(place, position).deal
            yield deal.num_places(self.order.rank, position, after)
            position = after

    def _lanes_at(self, begun: Place, position: int) -> EpochLanes:
        """Return the lanes of the epoch in which the sample of a position is."""
        epoch = position // max(self.num_samples, 1)
        is_begun = epoch + begun.pass_epoch == begun.epoch
        lanes = (begun.lanes if is_begun else ()) or (self._own_lanes,)
        stop = self._stop if self._own_lanes.padded_to else None
        return EpochLanes(self.num_samples, epoch * self.num_samples, stop, lanes)

    def chunks(self, place: Place, part: int = 0) -> Iterator[Chunk]:
        """Yield the numbers of the samples of a part, from a place on."""
        chunks = self._chunks(place)
        if self.num_parts == 1:
            return chunks
        return cut(chunks, self._sizes(place), part, self.num_parts)

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
                prepare = partial(self._prepare_after, epoch, number)
                yield from self.order.chunks(self.bounds, rows, number, used, self.ahead, prepare)

    def _prepare_after(self, epoch: int, number: int) -> None:
        """Have a thread permute the first window of what follows: this pass, or another one."""
        is_last = self.num_epochs is not None and epoch + 1 >= self.num_epochs
        first_place = 0 if is_last else (epoch + 1) * self.num_samples
        stop = self._stop if self._own_lanes.padded_to else None
        lanes = EpochLanes(self.num_samples, first_place, stop, (self._own_lanes,))
        rows = lanes.first_lane(self.order.rank)
        self.order.prepare(self.bounds, rows, number + 1, self.ahead)


def cut(chunks: Iterator[Chunk], sizes: Iterator[int], part: int, parts: int) -> Iterator[Chunk]:
    """Yield what belongs to every so many-th of some batches, beginning with number `part`."""
    chunk: Chunk = range(0)
    for number, size in enumerate(sizes):
        while size:
            while not len(chunk):
                chunk = next(chunks)
            taken, chunk = chunk[:size], chunk[size:]
            size -= len(taken)
            if number % parts == part:
                yield taken
