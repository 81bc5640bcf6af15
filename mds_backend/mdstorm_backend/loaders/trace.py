"""`Trace`: which rows the batches of a pass have, on any rank, without reading data.

Plans are pure, so the rows of another rank are the samples of that rank's plan.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, takewhile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base.checks import check_required_integer, is_integer
from mdstorm_backend.datasets import SampleDataset, choose_rows
from mdstorm_backend.display import counted, shown_url
from mdstorm_backend.errors import InvalidArgumentError, MDStormError, StateMismatchError
from mdstorm_backend.loaders.reader_options import Conditions, ReaderOptions
from mdstorm_backend.loaders.segment import Segment
from mdstorm_backend.loaders.state import read_state, state_mapping
from mdstorm_backend.order import Chunk, Plan, Position, StreamShape, World, order_named
from mdstorm_backend.order.chunk import RowsOnDemand, numbers_of
from mdstorm_backend.order.state_values import damaged, number

_Numbers = npt.NDArray[np.int64]
#: Number of epochs that `Trace.where` searches: a row that comes does so by the end of the second.
_EPOCHS = 2
#: More batches than any pass has, to search a pass that never ends.
_MOST_BATCHES = 1 << 48


class Where(NamedTuple):
    """Where a row comes: in which batch, counted as in `Trace.rows`, and on which rank."""

    batch: int
    rank: int


class Trace:
    """Which rows the batches of a pass have, from where it begins or resumes.

    Batches are counted from 0 on each rank, and rows from 0 in the stored order of the data. No
    data are read; the elastic order computes the samples of whole epochs.

    Parameters
    ----------
    options : ReaderOptions
        The data to read; its share of the rows must be known.
    start : Position
        Where the pass begins or resumes.

    Raises
    ------
    InvalidArgumentError
        If only reading shows which rows a batch has.
    """

    def __init__(self, options: ReaderOptions, start: Position) -> None:
        if options.drops_rows:
            raise _not_known(options.dataset.url)
        #: Number of rows of the first batch that were read before the state was taken.
        self._skip = start.skip
        self._segment = Segment(options, replace(start, skip=0)).remaining()

    def __repr__(self) -> str:
        segment, order = self._segment, self._segment.options.order
        batches = self.num_batches()
        position, world = segment.position, f"rank {order.world.rank} of {order.world_size}"
        begin = f"epoch {position.epoch} after {position.consumed:,} samples"
        url = shown_url(segment.options.dataset.url)
        size = "endless" if batches is None else counted(batches, "batch", "batches")
        return f"Trace({url!r}, {world}, from {begin}, {size})"

    @property
    def _ends(self) -> bool:
        return self._segment.options.num_epochs is not None

    def num_batches(self) -> int | None:
        """Return the number of batches to the end of the pass; None if it never ends."""
        return _num_batches(self._segment.onward()) if self._ends else None

    def following(self) -> Trace:
        """Return the trace of the pass that follows, which must end."""
        position = self._segment.position
        last = position.last_epoch(self._segment.options.num_epochs)
        assert last is not None, "the pass never ends"
        return Trace(self._segment.options, position.beginning_of(last + 1))

    def batches_until(self, other: Trace, lanes: Sequence[Any] = ()) -> int | None:
        """Return how many batches come before another trace begins, on any number of ranks.

        None if it does not begin after one of the batches of this pass, or of a following one.

        Parameters
        ----------
        other : Trace
            The other trace.
        lanes : sequence
            The lanes of a state where the other trace begins, if known. None is returned if the
            worlds that have read the epoch are others here.
        """
        count, goal = 0, _progress(other._segment.plan, other._segment.position)
        for segment in self._segments():
            if _progress(segment.plan, segment.position) > goal:
                return None
            if (found := _batches_until(segment.plan, goal)) is not None:
                offset = segment.plan.offset_after(found) if found else None
                here = () if offset is None else segment.plan.position(offset).lanes
                is_other = lanes and here and [*map(list, here)] != [*map(list, lanes)]
                return None if is_other else count + found
            if not (batches := _length(segment)):
                return None
            count += batches
        return None

    def _segments(self) -> Iterator[Segment]:
        """Yield the segments of this pass, and of those that follow it."""
        trace = self
        while True:
            yield from trace._segment.onward()
            trace = trace.following()

    def rows(self, batch: int | slice | Sequence[int], rank: int = 0) -> _Numbers:
        """Return the numbers of a batch's rows, in the order of the batch, as int64.

        Parameters
        ----------
        batch : int, slice or sequence of int
            Number of the batch, from 0; or several numbers, for the rows of one after another. A
            slice without an end means all remaining batches of the pass.
        rank : int
            The rank that reads it.

        Raises
        ------
        InvalidArgumentError
            If there is no such batch or rank.
        StateMismatchError
            If the state does not describe this rank.
        """
        first = self._of_rank(rank)
        batches = self._range_of(batch, first) if isinstance(batch, slice) else batch
        parts = [np.empty(0, np.int64)]
        for run in consecutive(batches, "batch", "a slice, or a list of them"):
            parts += self._rows_of(run, first)
        return np.asarray(self._segment.options.dataset.stored_numbers(np.concatenate(parts)))

    def _rows_of(self, batches: range, first: Segment) -> list[_Numbers]:
        """Return the numbers of the samples in consecutive batches."""
        parts, left = [np.empty(0, np.int64)], len(batches)
        first.seek(batches.stop, f"batch {batches.stop - 1}")  # raises if there is none
        segment, count = first.seek(batches.start + 1, "")
        while left:
            samples = segment.plan.samples(None)
            before = sum(islice(samples.sizes, count - 1))
            sizes = list(islice(samples.sizes, left))
            parts += _cut(samples.chunks, before, before + sum(sizes))
            left, count = left - len(sizes), 1
            segment = segment.following() or segment
        return [np.concatenate(parts)[self._skip :]] if batches.start == 0 else parts

    def _range_of(self, batches: slice, first: Segment) -> object:
        """Return the numbers that a slice means; the slice itself if it means none."""
        start, stop = batches.start or 0, batches.stop
        if stop is None and self._ends:
            stop = _num_batches(first.onward())
        are_numbers = is_integer(start) and is_integer(stop) and batches.step in (None, 1)
        return range(start, max(start, stop)) if are_numbers else batches

    def find(self, rows: Any, epochs: range | None = None) -> pa.Table:
        """Return every time that some rows come.

        Parameters
        ----------
        rows : sequence of int or boolean array
            Numbers of the rows, or one boolean for each row.
        epochs : range, optional
            The epochs to search, by their numbers. Those that begin after this pass are epochs of
            further passes. By default, the rest of this pass.

        Returns
        -------
        pyarrow.Table
            int64 columns ``row``, ``epoch``, ``batch`` and ``rank``, sorted by the last three.
            Batches are counted as in `rows`, and in further passes from the beginning of each.

        Raises
        ------
        InvalidArgumentError
            If there is no such row, or the pass never ends and `epochs` is not given.
        StateMismatchError
            If the state describes only one of several ranks.
        """
        options, first = self._segment.options, self._segment.position.epoch
        samples = options.dataset.samples_of(self._checked(rows))
        last = self._segment.position.last_epoch(options.num_epochs)
        if epochs is None:
            if last is None:
                raise InvalidArgumentError(
                    "the pass never ends: pass the epochs to search, for example "
                    f"epochs=range({first}, {first + 1})"
                )
            epochs = range(first, last + 1)
        if not isinstance(epochs, range) or epochs.step != 1:
            raise InvalidArgumentError(f"epochs must be a range such as range(3), found {epochs!r}")
        ranks = range(options.order.world_size)
        parts = [part for rank in ranks for part in self._times(rank, samples, epochs.stop)]
        times = np.concatenate([np.empty((4, 0), np.int64), *parts], axis=1)
        times = times[:, times[1] >= epochs.start]
        times[0] = options.dataset.stored_numbers(times[0])
        _, epoch, batch, rank = times
        times = times[:, np.lexsort((rank, batch, epoch))]
        return pa.table(dict(zip(("row", "epoch", "batch", "rank"), times, strict=True)))

    def _times(self, rank: int, samples: _Numbers, stop: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield when samples come on a rank before the epoch `stop`.

        Each array has shape ``(4, times)``: samples, epochs, batches and ranks.
        """
        segment, before, skipped = self._of_rank(rank), 0, self._skip
        while (epoch := segment.position.epoch) < stop:
            plan, samples_of_plan = segment.plan, segment.plan.samples(None)
            ends = np.cumsum([*islice(plan.epoch_sizes(), stop - epoch)])
            found, places = _places(samples_of_plan.chunks, samples, int(ends[-1]))
            batches = _batches_of(samples_of_plan.sizes, places)
            is_in = (batches >= 0) & (places >= skipped)
            epochs = epoch + np.searchsorted(ends, places, side="right")
            times = np.stack([found, epochs, before + batches, np.full(len(found), rank)])
            yield times[:, is_in]
            following, skipped = segment.following(), 0
            if following is not None:
                segment, before = following, before + _num_batches([segment])
            else:
                start = segment.position.beginning_of(epoch + len(ends))
                segment, before = replace(segment, start=start), 0

    def where(self, row: int) -> Where:
        """Return where a row comes next: the batch and the rank that reads it.

        The rest of the epoch is searched, and the following epoch if the pass contains it.

        Raises
        ------
        InvalidArgumentError
            If there is no such row, or it does not come; the message gives the reason.
        StateMismatchError
            If the state describes only one of several ranks.
        """
        if found := self._next(row):
            return found
        options, start = self._segment.options, self._segment.start
        whole = replace(options, drop_last=False)
        reason = "the order leaves it out of this epoch"
        if not len(options.dataset.samples_of(self._checked([row]))):
            reason = "rows= or where= does not choose it, or a filter leaves it out"
        elif Trace(whole, start)._next(row):
            reason = "drop_last drops the batch that would have it"
        elif Trace(whole, start.beginning_of(start.epoch))._next(row):
            reason = "it was read before, in this epoch"
        raise InvalidArgumentError(f"row {row} does not come in the rest of this pass: {reason}")

    def _next(self, row: int) -> Where | None:
        """Return where a row comes next, up to the end of the next epoch; None if it does not."""
        epoch = self._segment.position.epoch
        last = self._segment.position.last_epoch(self._segment.options.num_epochs)
        stop = epoch + _EPOCHS if last is None else min(epoch + _EPOCHS, last + 1)
        found = self.find([row], range(epoch, stop)).slice(0, 1).to_pylist()
        return Where(found[0]["batch"], found[0]["rank"]) if found else None

    def shard_and_row(self, row: int) -> tuple[int, int]:
        """Return the number of the shard that holds a row, and the row's number in it.

        Raises
        ------
        InvalidArgumentError
            If there is no such row, or a filter leaves out its shard.
        """
        dataset = self._segment.options.dataset.all_rows
        samples = dataset.samples_of(self._checked([row]))
        if not len(samples):
            raise InvalidArgumentError(
                f"row {row} of {dataset.url} is in a shard that filters or a selector leave out: "
                "trace a reader without them"
            )
        return dataset.locate(int(samples[0]))

    def _checked(self, rows: Any) -> _Numbers:
        """Return the numbers of rows, ascending and without repeats.

        Raises
        ------
        InvalidArgumentError
            If there is no such row.
        """
        dataset, numbers = self._segment.options.dataset.all_rows, np.asarray(rows)
        count = int(max(dataset.first_rows + np.diff(dataset.bounds), default=0))
        if numbers.dtype == np.bool_ and numbers.shape == (count,):
            numbers = np.flatnonzero(numbers)
        is_number = numbers.dtype.kind in "iu" and numbers.ndim == 1
        outside = (numbers < 0) | (numbers >= count) if is_number else None
        wrong = [rows] if outside is None else numbers[outside].tolist()
        if wrong:
            is_value = numbers.dtype.kind in "USO"
            by_value = "dataset.numbers(where) finds rows by their values"
            raise InvalidArgumentError(
                f"row must be an integer from 0 to {count - 1}, found {wrong[0]!r}: "
                f"{by_value if is_value else f'{dataset.url} has {count} rows'}"
            )
        return np.unique(numbers.astype(np.int64))

    def _of_rank(self, rank: int) -> Segment:
        """Return the segment of another rank, whose order differs only in the rank."""
        check_required_integer("rank", rank, 0)
        segment, order = self._segment, self._segment.options.order
        if rank == order.world.rank:
            return segment
        share = order.share_of(replace(order.world, rank=rank))
        other = replace(segment, options=replace(segment.options, order=share))
        is_begun = segment.position.consumed or self._skip
        if is_begun and segment.plan.counts_own_rows:
            raise StateMismatchError(
                f"the state counts the row groups of rank {order.world.rank}, so the batches of "
                f"rank {rank} are not known: pass the state of that rank, in its process"
            )
        return other


def _num_batches(segments: Iterable[Segment]) -> int:
    """Return the number of batches of segments that end."""
    return sum(_length(segment) or 0 for segment in segments)


def _length(segment: Segment) -> int | None:
    """Return the number of batches of a segment; None if it never ends.

    Batches of readers are row groups, which differ in size: only listing them counts them.
    """
    batches = segment.plan.num_batches()
    if batches is None and segment.options.num_epochs is not None:
        return sum(1 for _ in segment.plan.samples(None).sizes)
    return batches


def consecutive(numbers: object, name: str, forms: str) -> list[range]:
    """Return an integer or several as ranges of consecutive ones, in the same order.

    Parameters
    ----------
    numbers : object
        What was passed.
    name, forms : str
        The argument and what else it may be, for the error.

    Raises
    ------
    InvalidArgumentError
        If they are not integers of at least 0.
    """
    if isinstance(numbers, range) and numbers.step == 1 and numbers.start >= 0:
        return [numbers] if numbers else []
    is_text = isinstance(numbers, (str, bytes))
    several = [*numbers] if isinstance(numbers, Iterable) and not is_text else [numbers]
    if not all(is_integer(number) and 0 <= number < 1 << 63 for number in several):
        raise InvalidArgumentError(
            f"{name} must be an integer of at least 0, {forms}, found {numbers!r}"
        )
    found = np.array(several, np.int64)
    parts = np.split(found, np.flatnonzero(np.diff(found) != 1) + 1)
    return [range(int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]


def trace_of_state(
    state: object,
    dataset: SampleDataset,
    *,
    batch_size: int | None = None,
    drop_last: bool = False,
    num_workers: int = 0,
    ranks: int | None = None,
    ranks_per_node: int | None = None,
    rows: Any = None,
    where: Any = None,
    streams: Sequence[StreamShape] = (),
) -> Trace:
    """Return which rows the batches of a pass have that resumes at a state, without its loader.

    Parameters
    ----------
    state : object
        The state, which has the order, its seed and the selection.
    dataset : SampleDataset
        The dataset.
    batch_size : int, optional
        Rows of a batch; by default as in the state.
    drop_last, num_workers
        How the loader makes batches: see `ReaderOptions`. The state of a reader determines it.
    ranks : int, optional
        Number of ranks; by default that of the run in which the state was taken.
    ranks_per_node : int, optional
        Number of ranks on each node; by default as at the beginning of the pass.
    rows, where
        The loader's arguments, which its state identifies but does not contain.
    streams : sequence of StreamShape, optional
        The streams of `dataset`, with their weights; by default a single one.

    Raises
    ------
    InvalidArgumentError
        If only reading shows which rows a batch has, or arguments differ from the loader's.
    StateMismatchError
        If the state was taken from a different dataset, or is not a state of mdstorm.
    """
    state = state_mapping(state)
    ours = state.get("mdstorm")
    if not isinstance(ours, Mapping) or not isinstance(ours.get("settings"), Mapping):
        raise damaged("it does not have the order's settings, as one of MosaicML Streaming")
    if ours.get("filters") or ours.get("predicate") or ("row" in ours and ours.get("transform")):
        raise _not_known(dataset.url)
    stated = number(ours, "batch_size", 1) if "batch_size" in ours else batch_size
    if stated is None or batch_size not in (None, stated):
        raise InvalidArgumentError(
            f"batch_size={batch_size}, but the state is of a loader with batch_size={stated}: pass "
            "the loader's batch size, or leave it out if the state contains one"
        )
    how = {"batch_size": stated, "drop_last": drop_last, "num_workers": num_workers}
    try:
        options = _options_of_state(
            state, dataset, (ranks, ranks_per_node), (rows, where), how, streams
        )
        return Trace(options, read_state(state, options))
    except MDStormError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise damaged(f"its values describe no order ({error})") from error


def _options_of_state(
    state: Mapping[str, Any],
    dataset: SampleDataset,
    world_size: tuple[int | None, int | None],
    chosen: tuple[Any, Any],
    how: Mapping[str, Any],
    streams: Sequence[StreamShape],
) -> ReaderOptions:
    """Return how a state's pass reads, with batches made as `how` describes."""
    ours, of_rank = state["mdstorm"], "row" in state["mdstorm"]
    ranks, ranks_per_node = world_size
    world = World(number(ours, "rank") if of_rank else 0, ranks or number(ours, "world_size", 1))
    order = order_named(str(ours.get("order"))).of_state(state, world, how["batch_size"])
    if ranks_per_node is not None:
        order = order.share_of(replace(order.world, local_size=ranks_per_node))
    if streams:
        order = order.over(streams, chosen=chosen != (None, None))
    dataset = choose_rows(dataset, *chosen, is_shuffled=order.uses_seed)
    if ours.get("rows") != dataset.chosen:
        raise InvalidArgumentError(
            "the state was taken with other rows= or where=, and does not contain the chosen rows: "
            "pass the loader's, or create the loader with them, and call its trace(state)"
        )
    # Older states in the elastic order do not contain the number of epochs: this one is the last.
    epochs = max(number(state, "epoch", -1) - number(ours, "first_epoch"), 0) + 1
    num_epochs = ours.get("num_epochs", epochs)
    if num_epochs is not None:
        num_epochs = number({"num_epochs": num_epochs}, "num_epochs", 1)
    return ReaderOptions(
        dataset,
        order,
        **how,
        by_shard=of_rank,
        largest=number(ours, "largest", 1) if "largest" in ours else None,
        columns=ours.get("columns"),
        num_epochs=num_epochs,
        conditions=Conditions(transform=ours.get("transform"), rows=dataset.chosen),
    )


def _progress(plan: Plan, position: Position) -> tuple[int, int]:
    """Return a position as an epoch and a number of samples, the same for both ends of an epoch."""
    end = plan.num_samples if position.end is None else position.end  # padded, in some orders
    if position.consumed >= end > 0:
        return position.epoch + 1, 0
    return position.epoch, position.consumed


def _batches_until(plan: Plan, goal: tuple[int, int]) -> int | None:
    """Return after how many batches of a plan a position is reached; None if after none."""
    if plan.counts_own_rows:  # only listing its batches shows where they end
        offsets = chain([0], plan.samples(None).offsets)
        reached = (_progress(plan, plan.position(offset)) for offset in offsets)
        passed = list(takewhile(lambda one: one <= goal, reached))
        return passed.index(goal) if goal in passed else None

    def after(batches: int) -> tuple[int, int]:
        offset = plan.offset_after(batches) if batches else 0
        return _progress(plan, plan.end() if offset is None else plan.position(offset))

    most = plan.num_batches()
    most = _MOST_BATCHES if most is None else most
    found = bisect_left(range(most + 1), goal, key=after)
    return found if found <= most and after(found) == goal else None


def _not_known(url: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"only reading shows which rows the batches of {url} have, because a transform without "
        "keeps_rows=True, filter, predicate or cache may change the number of rows. If the "
        "function returns one row for each row, pass TransformSpec(…, keeps_rows=True); pass "
        "filters as where=; leave out the others"
    )


def _cut(chunks: Iterator[Chunk], start: int, stop: int) -> Iterator[_Numbers]:
    """Yield the numbers of the samples from `start` up to `stop`, by chunk."""
    begin = 0
    while begin < stop:
        chunk = next(chunks)
        if begin + len(chunk) > start:
            yield numbers_of(chunk[max(start - begin, 0) : stop - begin])
        begin += len(chunk)


def _batches_of(sizes: Iterator[int], places: _Numbers) -> _Numbers:
    """Return the number of the batch that has each of the ascending `places`; -1 if none has."""
    ends = np.zeros(1, np.int64)
    while len(places) and ends[-1] <= places[-1]:
        more = np.fromiter(islice(sizes, len(ends)), np.int64)
        if not len(more):
            break
        ends = np.concatenate([ends, ends[-1] + np.cumsum(more)])
    batches = np.searchsorted(ends, places, side="right") - 1
    return np.where(batches < len(ends) - 1, batches, -1)


def _places(chunks: Iterator[Chunk], samples: _Numbers, stop: int) -> tuple[_Numbers, _Numbers]:
    """Return which samples come before the place `stop`, in order, and their places.

    `samples` must be ascending. The chunks may end before `stop`, without samples that are dropped.
    """
    found, places, begin = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    while begin < stop and (chunk := next(chunks, None)) is not None:
        numbers, at = _members(chunk, samples)
        found.append(numbers)
        places.append(begin + at)
        begin += len(chunk)
    return np.concatenate(found), np.concatenate(places)


def _members(chunk: Chunk, samples: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Return the samples that a chunk has, in its order, and their places in it."""
    if isinstance(chunk, range):
        low, high = np.searchsorted(samples, (chunk.start, chunk.stop))
        return samples[low:high], samples[low:high] - chunk.start
    if isinstance(chunk, RowsOnDemand):
        found, at = chunk.window.places(samples)
        order = np.argsort(at)
        order = order[(at[order] >= chunk.part.start) & (at[order] < chunk.part.stop)]
        return found[order], at[order] - chunk.part.start
    numbers = numbers_of(chunk)
    at = np.flatnonzero(np.isin(numbers, samples))
    return numbers[at], at
