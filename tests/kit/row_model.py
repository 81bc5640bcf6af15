"""What loaders should read, as lists of rows: the orders, and when an iteration uses up its epoch.

It follows docs/concepts/epochs.md and docs/concepts/orders.md, and imports nothing of mdstorm. So a
fault that two loaders share does not hide.

`Orders` lists the batches of a pass. Loaders over one dataset share a `Counting`, which determines
where the next iteration begins. A `ModelLoader` has the iterations of one loader.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from math import gcd
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

#: The samples of each epoch in MosaicML Streaming's order, recorded with its 0.13:
#: ``get_shuffle_py1e([15, 15, 15, 15], 1, 9176, epoch, 4_000_000)``.
MOSAIC_EPOCHS: list[list[int]] = json.loads(
    (Path(__file__).parent / "mosaic_epochs.json").read_text()
)


class Place(NamedTuple):
    """How far all ranks together are in a pass.

    Attributes
    ----------
    first : int
        The first epoch of the pass.
    done : int
        Number of samples of the pass that were consumed.
    layouts : tuple of (int, int)
        In the exact order, within an epoch: for each number of ranks that have read it, the `done`
        where they began, and that number.
    """

    first: int = 0
    done: int = 0
    layouts: tuple[tuple[int, int], ...] = ()


_Sample = TypeVar("_Sample")
Batches = Iterator[tuple[list[int], Place]]


@dataclass(frozen=True)
class Rows:
    """The rows of a dataset, and how they are read.

    Attributes
    ----------
    bounds : tuple of int
        Number of each shard's first row, then the number of rows.
    batch_size, num_epochs : int
        The loader's arguments.
    batches_of : callable
        Lists the batches of a rank from a place on, to the end of the pass.
    seed, window, queue : int
        Of the exact order.
    shuffles_rows, drops_last : bool
        Whether rows are shuffled within shards or windows, and whether short batches are left out.
    """

    bounds: tuple[int, ...]
    batches_of: Callable[["Rows", Place, int, int], Batches]
    batch_size: int = 3
    num_epochs: int = 1
    seed: int = 5
    window: int = 0
    queue: int = 0
    shuffles_rows: bool = True
    drops_last: bool = False

    @property
    def count(self) -> int:
        return self.bounds[-1]

    @property
    def total(self) -> int:
        """Number of samples in a pass, of all ranks."""
        return self.count * self.num_epochs

    def are_divisible(self, place: Place, ranks: int) -> bool:
        """Whether ranks can continue at a place without repeated samples or empty batches."""
        left = self.total - place.done
        if self.batches_of is elastic or self.batch_size == 1:
            return left % (ranks * self.batch_size) == 0
        return not 0 < left < ranks

    def in_epoch(self, place: Place) -> tuple[int, int]:
        """Return the epoch of the latest sample, and how many of its samples are consumed."""
        epoch = self.epoch_reached(place)
        return epoch, place.done - (epoch - place.first) * self.count

    def epoch_reached(self, place: Place) -> int:
        """Return the epoch of the latest sample before a place."""
        return place.first + max(place.done - 1, 0) // self.count

    def following_pass(self, place: Place, ranks: int) -> Place:
        """Return the beginning of the next pass if no batch is left, and otherwise the place."""
        left = self.total - place.done
        is_over = left < (ranks * self.batch_size if self.drops_last else 1)
        return Place(place.first + self.num_epochs) if is_over else place

    def batches(self, place: Place, rank: int, ranks: int) -> Batches:
        """Yield the rows of each batch of a rank, with the place after it, to the pass's end."""
        return iter(listed(self, self.following_pass(place, ranks), rank, ranks))


@cache
def listed(rows: Rows, place: Place, rank: int, ranks: int) -> tuple[tuple[list[int], Place], ...]:
    """Return the batches of a rank from a place on."""
    return tuple(rows.batches_of(rows, place, rank, ranks))


@cache
def stride(count: int) -> int:
    """Return a number that is coprime to `count` and near 0.618 times `count`."""
    coprime = (g for g in range(1, count + 1) if gcd(g, count) == 1)
    return min(coprime, key=lambda g: (abs(g - round(count * 0.618)), g))


def numbers_of(member: int, count: int, start: int, stop: int) -> range:
    """Return the numbers that are dealt out to one of `count` ranks or lanes."""
    residue = member * stride(count) % count
    return range(start + (residue - start) % count, stop, count)


def lanes_of(samples: list[_Sample], count: int, start: int) -> list[list[_Sample]]:
    """Cut the remaining samples of an epoch, the first of which has the number `start`."""
    stop, lanes, begin = start + len(samples), [], 0
    for lane in range(count):
        size = len(numbers_of(lane, count, start, stop))
        lanes.append(samples[begin : begin + size])
        begin += size
    return lanes


def shuffled(rows: Rows, lane: list[int], epoch: int, number: int) -> list[int]:
    """Return the rows of a lane in the order of an epoch: shards first, then rows in windows."""
    pieces = [[row for row in lane if low <= row < high] for low, high in pairwise(rows.bounds)]
    pieces = [piece for piece in pieces if piece]
    of_lane = (number,) if number else ()
    order = np.random.default_rng((rows.seed, epoch, 0, *of_lane)).permutation(len(pieces))
    windows = windows_of(rows, [pieces[shard] for shard in order])
    if not rows.shuffles_rows:
        return [row for window in windows for row in window]
    found = []
    for at, window in enumerate(windows):
        seed = (rows.seed, epoch, 1, at, *of_lane)
        order = np.random.default_rng(seed).permutation(len(window))
        found += [window[row] for row in order]
    return found


def windows_of(rows: Rows, pieces: list[list[int]]) -> list[list[int]]:
    """Join parts of shards into windows."""
    total, windows, done = sum(map(len, pieces)), [[]], 0
    # In place of a queue are as many windows, of about equal sizes, as would each have twice its
    # rows and those of a shard.
    count = max(total * len(pieces) // (2 * rows.queue * len(pieces) + total), 1) if total else 1
    cuts = [number * total // count for number in range(1, count + 1)]
    for piece in pieces:
        begun = done - len(windows[-1])
        is_full = len(windows[-1]) >= max(rows.window, 1)
        if rows.queue:
            is_full = any(begun < cut <= done for cut in cuts)
        if is_full:
            windows.append([])
        windows[-1] += piece
        done += len(piece)
    return windows


def in_turns(parts: list[list[int]]) -> list[tuple[int, int]]:
    """Return the rows of a lane's parts in reading order, each with the number of its part."""
    assert len(parts) <= 16, "more are not read at once"
    rounds, found = 1 << max(map(len, parts), default=0).bit_length(), []
    for turn in range(rounds):
        for number, part in enumerate(parts):
            read = part[len(part) * turn // rounds : len(part) * (turn + 1) // rounds]
            found += [(number, row) for row in read]
    return found


def as_parts(rows: list[tuple[int, int]]) -> list[list[int]]:
    """Return the rows of each part that has some."""
    numbers = dict.fromkeys(sorted(part for part, _ in rows))
    return [[row for part, row in rows if part == number] for number in numbers]


@cache
def current_lanes(
    rows: Rows, epoch: int, start: int, layouts: tuple[tuple[int, int], ...]
) -> list[list[int]]:
    """Return the last lanes of an epoch, whose first sample has the number `start`."""
    first = lanes_of(list(range(rows.count)), layouts[0][1], start)
    lanes = [[shuffled(rows, lane, epoch, number)] for number, lane in enumerate(first)]
    for (begun, before), (cut, count) in pairwise(layouts):
        left: list[list[int]] = []
        for lane, parts in enumerate(lanes):
            taken = len(numbers_of(lane, before, begun, cut))
            left += as_parts(in_turns(parts)[taken:])
        remaining = [(number, row) for number, part in enumerate(left) for row in part]
        lanes = [as_parts(lane) for lane in lanes_of(remaining, count, cut)]
    return [[row for _, row in in_turns(parts)] for parts in lanes]


def exact(rows: Rows, place: Place, rank: int, ranks: int) -> Batches:
    """Yield batches in the exact order, in which all ranks together read each row once."""
    first, done, layouts = place
    if layouts and layouts[-1][1] != ranks:  # the remaining rows are divided again
        read = tuple(layout for layout in layouts if layout[0] < done)
        layouts = (*read, (done, ranks))
    step = ranks * rows.batch_size
    while done < rows.total and not (rows.drops_last and rows.total - done < step):
        stop, left = min(done + step, rows.total), rows.total - done - step
        if 0 < left < ranks and rows.batch_size > 1 and not rows.drops_last:
            stop = done + ranks * -(-rows.batch_size // 2)  # so that no rank has an empty batch
        batch = []
        for number in numbers_of(rank, ranks, done, stop):
            start = number // rows.count * rows.count
            is_begun = start == done // rows.count * rows.count
            cut = layouts if is_begun and layouts else ((start, ranks),)
            lane = current_lanes(rows, first + start // rows.count, start, cut)[rank]
            batch.append(lane[len(numbers_of(rank, ranks, cut[-1][0], number))])
        start = stop // rows.count * rows.count
        if start == stop:
            layouts = ()
        elif start != done // rows.count * rows.count or not layouts:
            layouts = ((start, ranks),)
        done = rows.total if rows.drops_last and rows.total - stop < step else stop
        yield batch, Place(first, done, layouts if done < rows.total else ())


def elastic(rows: Rows, place: Place, rank: int, ranks: int) -> Batches:
    """Yield batches in MosaicML Streaming's order, for worlds that need no repeated samples."""
    step = ranks * rows.batch_size
    for done in range(place.done, rows.total, step):
        epoch, before = divmod(done, rows.count)
        batch = MOSAIC_EPOCHS[place.first + epoch][before : before + step][rank::ranks]
        assert len(batch) == rows.batch_size, "these ranks need repeated samples"
        yield batch, Place(place.first, done + step)


@dataclass(eq=False)
class Iteration:
    """An iteration over a loader, and how much of it has been used."""

    start: Place
    is_first: bool
    changes: int
    loads: int
    batches: Batches
    seen: int = 0
    used: int = 0
    is_over: bool = False
    is_left: bool = False

    def __post_init__(self) -> None:
        self.after, self.seen = self.start, self.changes

    def is_peek(self, most: int) -> bool:
        return self.used + self.is_over <= (most if self.is_first else 0)


@dataclass(eq=False)
class Counting:
    """Where the next iteration over a dataset begins, on one rank; its loaders share it.

    Attributes
    ----------
    peek : int
        How many batches of an iteration are at most a peek.
    counts_peeks : bool
        Whether states count a peek that has been left: MosaicML Streaming's do.
    """

    rows: Rows
    rank: int
    ranks: int
    peek: int = 1
    counts_peeks: bool = False
    next: Place | None = Place()  # noqa: RUF009  # frozen
    reached: int = 0
    changes: int = 0
    loads: int = 0
    latest: Iteration | None = None

    @property
    def was_peek(self) -> bool:
        return self.latest is not None and self.latest.is_peek(self.peek)

    @property
    def following(self) -> Place:
        """Where the next iteration begins."""
        if self.next is not None:
            return self.next
        assert self.latest is not None
        return self.latest.start if self.was_peek else Place(self.reached + 1)

    def load(self, place: Place) -> None:
        self.next, self.changes, self.loads = place, self.changes + 1, self.loads + 1

    def set_epoch(self, epoch: int) -> None:
        first, done, _ = self.following
        contains = first <= epoch < first + self.rows.num_epochs
        if not (0 < done < self.rows.total and contains):
            self.next, self.changes = Place(epoch), self.changes + 1

    def begin(self) -> Iteration:
        latest, start = self.latest, self.rows.following_pass(self.following, self.ranks)
        is_unused = self.was_peek and latest is not None and not latest.used
        is_first = self.next is not None or (is_unused and latest is not None and latest.is_first)
        batches = self.rows.batches(start, self.rank, self.ranks)
        self.latest = Iteration(start, is_first, self.changes, self.loads, batches)
        self.next, self.reached = None, self.rows.epoch_reached(start)
        return self.latest


@dataclass(eq=False)
class ModelLoader:
    """The iterations of a loader. `latest` is the one that began or yielded a batch last."""

    counting: Counting
    latest: Iteration | None = field(default=None)

    @property
    def current(self) -> Iteration | None:
        """The iteration that a state describes; None if it describes where the next one begins."""
        latest, counting = self.latest, self.counting
        if latest is None or latest.loads != counting.loads or latest.seen != counting.changes:
            return None
        is_left_peek = latest.is_left and latest.is_peek(counting.peek)
        return None if is_left_peek and not counting.counts_peeks else latest

    @property
    def place(self) -> Place:
        """The place of a state that is taken now."""
        return self.counting.following if self.current is None else self.current.after

    @property
    def place_of_copy(self) -> Place:
        """Where a copy begins: where a state would resume or, after a peek, where that began."""
        current, counting = self.current, self.counting
        if current and counting.counts_peeks and current.is_peek(counting.peek):
            return counting.following
        return self.place

    def begin(self) -> Iteration:
        self.latest = self.counting.begin()
        return self.latest

    def take(self, iteration: Iteration) -> list[int] | None:
        """Return the rows of the next batch; None at the end."""
        batch, after = next(iteration.batches, (None, None))
        if batch is None or after is None:
            iteration.is_over = iteration.is_left = True
            return None
        self.latest, counting = iteration, self.counting
        iteration.after, iteration.seen = after, counting.changes
        iteration.used += 1
        if iteration.changes == counting.changes:
            counting.reached = max(counting.reached, counting.rows.epoch_reached(after))
        return batch
