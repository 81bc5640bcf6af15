"""`Trace`: which rows the batches of a pass have, on any rank, without reading data.

Plans are pure, so the rows of another rank are the samples of that rank's plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.checks import is_integer
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders.reader_options import Conditions, ReaderOptions
from mdstorm_backend.loaders.segment import Segment
from mdstorm_backend.loaders.state import read_state, state_mapping
from mdstorm_backend.order import Chunk, Position, World, order_named
from mdstorm_backend.order.chunk import RowsOnDemand, numbers_of
from mdstorm_backend.order.state_values import damaged, number
from mdstorm_backend.read import SampleSource

_Numbers = npt.NDArray[np.int64]
#: Number of epochs that `Trace.where` searches: a row that comes does so by the end of the second.
_EPOCHS = 2


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

    def rows(self, batch: int | range, rank: int = 0) -> _Numbers:
        """Return the numbers of a batch's rows, in the order of the batch, as int64.

        Parameters
        ----------
        batch : int or range
            Number of the batch, from 0; or a range of numbers, for the rows of one after another.
        rank : int
            The rank that reads it.

        Raises
        ------
        InvalidArgumentError
            If there is no such batch or rank.
        StateMismatchError
            If the state does not describe this rank.
        """
        batches = range(batch, batch + 1) if is_integer(batch) else batch
        if not isinstance(batches, range) or batches.step != 1 or batches.start < 0:
            raise InvalidArgumentError(
                f"batch must be an integer of at least 0 or a range of them, found {batch!r}"
            )
        begun, parts, left = self._of_rank(rank), [np.empty(0, np.int64)], len(batches)
        if left:
            begun.seek(batches.stop, f"batch {batches.stop - 1}")  # raises if there is none
            segment, count = begun.seek(batches.start + 1, "")
        while left:
            samples = segment.plan.samples(None)
            before = sum(islice(samples.sizes, count - 1))
            sizes = list(islice(samples.sizes, left))
            parts += _cut(samples.chunks, before, before + sum(sizes))
            left, count = left - len(sizes), 1
            segment = segment.following() or segment
        found = np.concatenate(parts)
        found = found[self._skip :] if batches.start == 0 else found
        return np.asarray(self._segment.options.dataset.stored_numbers(found))

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
        self.shard_and_row(row)  # raises if there is no such row
        segment = self._segment
        samples = segment.options.dataset.samples_of(row)
        if found := self._find_any(samples):
            return found
        reason = "it was read before, or the order leaves it out"
        whole = replace(segment.options, drop_last=False)
        if not samples:
            reason = "rows= or where= does not choose it"
        elif Trace(whole, segment.start)._find_any(samples):
            reason = "drop_last drops the batch that would have it"
        raise InvalidArgumentError(f"row {row} does not come in the rest of this pass: {reason}")

    def shard_and_row(self, row: int) -> tuple[int, int]:
        """Return the number of the shard that holds a row, and the row's number in it.

        Raises
        ------
        InvalidArgumentError
            If there is no such row.
        """
        dataset = self._segment.options.dataset.all_rows
        if not is_integer(row) or not 0 <= row < len(dataset):
            raise InvalidArgumentError(
                f"row must be an integer from 0 to {len(dataset) - 1}, found {row!r}: "
                f"{dataset.url} has {len(dataset)} rows"
            )
        return dataset.locate(int(row))

    def _of_rank(self, rank: int) -> Segment:
        """Return the segment of another rank, whose order differs only in the rank."""
        segment, order = self._segment, self._segment.options.order
        if rank == order.world.rank:
            return segment
        share = order.share_of(replace(order.world, rank=rank))
        other = replace(segment, options=replace(segment.options, order=share))
        begun = segment.position.consumed or self._skip
        if begun and segment.plan.row_plan is not None:
            raise StateMismatchError(
                f"the state counts the row groups of rank {order.world.rank}, so the batches of "
                f"rank {rank} are not known: pass the state of that rank, in its process"
            )
        return other

    def _find_any(self, samples: Iterable[int]) -> Where | None:
        """Return where the first of some samples comes next; None if none of them does."""
        return min(filter(None, map(self._find, samples)), default=None)

    def _find(self, sample: int) -> Where | None:
        """Return where a sample comes next; None if it does not."""
        size = self._segment.options.order.world_size
        segments = {rank: self._of_rank(rank) for rank in range(size)}
        before = [0] * size
        for _ in range(_EPOCHS):
            found = []
            for rank, segment in segments.items():
                if (batch := _batch_of(segment, sample, self._skip)) is not None:
                    found.append(Where(before[rank] + batch, rank))
            if found:
                return min(found)
            for rank, segment in segments.items():
                before[rank] += segment.plan.num_batches() or 0
            following = {rank: segment.following() for rank, segment in segments.items()}
            segments = {rank: one for rank, one in following.items() if one is not None}
        return None


def trace_of_state(
    state: object,
    dataset: SampleSource,
    *,
    batch_size: int = 1,
    drop_last: bool = False,
    num_workers: int = 0,
    ranks: int | None = None,
) -> Trace:
    """Return which rows the batches of a pass have that resumes at a state, without its loader.

    Parameters
    ----------
    state : object
        The state, which has the order, its seed and the selection.
    dataset : SampleSource
        The dataset.
    batch_size, drop_last, num_workers
        How the loader makes batches: see `ReaderOptions`. The state of a reader determines it.
    ranks : int, optional
        Number of ranks; by default that of the run in which the state was taken.

    Raises
    ------
    InvalidArgumentError
        If only reading shows which rows a batch has.
    StateMismatchError
        If the state was taken from a different dataset, or is not a state of mdstorm.
    """
    state = state_mapping(state)
    ours = state.get("mdstorm")
    settings = ours.get("settings") if isinstance(ours, Mapping) else None
    if not isinstance(ours, Mapping) or not isinstance(settings, Mapping):
        raise damaged("it does not have the order's settings, as one of MosaicML Streaming")
    of_rank, size = "row" in ours, ranks or number(ours, "world_size", 1)
    if ours.get("filters") or ours.get("predicate") or (of_rank and ours.get("transform")):
        raise _not_known(dataset.url)
    if ours.get("rows"):
        raise InvalidArgumentError(
            "the state is from a run with rows= or where=, and does not contain the chosen rows: "
            "create the loader with the same arguments, and call its trace(state)"
        )
    if of_rank:
        batch_size = number(ours, "batch_size", 1)
    world = World(number(ours, "rank") if of_rank else 0, size)
    order = order_named(str(ours.get("order"))).of_state(state, world, batch_size)
    options = ReaderOptions(
        dataset,
        order,
        batch_size,
        drop_last=drop_last,
        num_workers=num_workers,
        by_shard=of_rank,
        columns=ours.get("columns"),
        num_epochs=ours.get("num_epochs"),
        conditions=Conditions(transform=ours.get("transform")),
    )
    return Trace(options, read_state(state, options))


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


def _batch_of(segment: Segment, sample: int, skip: int) -> int | None:
    """Return the first batch that has a sample after the first `skip` rows; None if there is none.

    Up to the end of the next epoch: a pass may be endless, and a rank may never read it.
    """
    plan = segment.plan
    places = _places(plan.samples(None).chunks, sample, _EPOCHS * (plan.rows_per_epoch + 1))
    place = next((place for place in places if place >= skip), None)
    if place is None:
        return None
    ends = accumulate(plan.samples(None).sizes)
    return next((number for number, end in enumerate(ends) if end > place), None)


def _places(chunks: Iterator[Chunk], sample: int, most: int) -> Iterator[int]:
    """Yield where a sample comes among the first samples of the chunks, `most` or more."""
    begin = 0
    for chunk in chunks:
        if begin >= most:
            return
        # Most chunks do not have the sample, and show it without computing their order.
        if sample in (chunk.window if isinstance(chunk, RowsOnDemand) else chunk):
            yield from (begin + np.flatnonzero(numbers_of(chunk) == sample)).tolist()
        begin += len(chunk)
