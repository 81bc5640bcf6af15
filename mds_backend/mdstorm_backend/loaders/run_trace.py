"""`RunTrace`: which rows the steps of a run had that was interrupted and resumed.

A run has a state for each time that its loader began or resumed. The steps of each are those of its
`Trace`, up to the step at which the next one begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.trace import Trace, Where, consecutive

#: Number of passes of the last state that `RunTrace.where` searches.
_PASSES = 2


class _Part(NamedTuple):
    """The steps from `begin` up to `stop` are batches of a pass; None if the pass never ends.

    If their rows are not known, `trace` is the reason.
    """

    begin: int
    stop: int | None
    trace: Trace | str


class RunTrace:
    """Which rows the steps of a run had, on any rank, without reading data.

    A step is a batch on each rank. Passes over the data follow one another without a gap.

    Parameters
    ----------
    parts : sequence of tuple
        For each time that the loader began or resumed, in this order: the step, and the trace from
        there on, or the reason why it is not known. It takes the place of all later steps of the
        traces before it.
    dataset : object
        The data, whose rows have the numbers that are listed: see `dataset`.

    Attributes
    ----------
    dataset : SampleDataset
        ``dataset[trace.rows(step)]`` are the rows of a step, decoded as the loader decodes them.
    """

    def __init__(self, parts: Sequence[tuple[int, Trace | str]], dataset: Any) -> None:
        self.dataset = dataset
        self._parts: list[_Part] = []
        stop = None
        for begin, trace in reversed(parts):
            self._parts.insert(0, _Part(begin, stop, trace))
            stop = begin if stop is None else min(begin, stop)
        self._first = stop or 0

    def __repr__(self) -> str:
        parts = "".join(f"\n  from step {begin}: {trace!r}" for begin, _, trace in self._parts)
        return f"RunTrace({parts}\n)"

    def rows(self, step: int | Sequence[int], rank: int = 0) -> npt.NDArray[np.int64]:
        """Return the numbers of a step's rows, in the order of the batch.

        Parameters
        ----------
        step : int or sequence of int
            Number of the step; or several numbers, for the rows of one after another.
        rank : int
            The rank that reads them.

        Raises
        ------
        InvalidArgumentError
            If there is no such step or rank, or the rows of a step are not known.
        StateMismatchError
            If the state does not describe this rank.
        """
        parts = [np.empty(0, np.int64)]
        for steps in consecutive(step, "step", "or a list of them"):
            parts += self._rows_of(steps, rank)
        return np.concatenate(parts)

    def _rows_of(self, steps: range, rank: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the numbers of the rows of consecutive steps."""
        if steps.start < self._first:
            raise InvalidArgumentError(
                f"step {steps.start} is before the first state of the run, which begins at step "
                f"{self._first}"
            )
        for begin, stop, trace in self._passes():
            if begin >= steps.stop:
                break
            last = steps.stop if stop is None else min(stop, steps.stop)
            if (first := max(begin, steps.start)) < last:
                if isinstance(trace, str):
                    raise InvalidArgumentError(
                        f"the run does not show which rows step {first} has, because {trace}"
                    )
                yield trace.rows(range(first - begin, last - begin), rank)

    def where(self, row: int) -> Where:
        """Return the first step that has a row, and the rank that reads it.

        After the last state, the running pass and the next one are searched.

        Raises
        ------
        InvalidArgumentError
            If there is no such row, or no step has it.
        StateMismatchError
            If a state describes only one of several ranks.
        """
        reason = f"row {row} does not come before the next state"
        for begin, stop, trace in self._passes(_PASSES):
            if isinstance(trace, str):
                reason = f"the rows from step {begin} on are not known, because {trace}"
                continue
            try:
                found = trace.where(row)
            except InvalidArgumentError as error:
                reason = f"{error}"
                continue
            if stop is None or begin + found.batch < stop:
                return found._replace(batch=begin + found.batch)
        raise InvalidArgumentError(reason)

    def find(self, rows: Any, epochs: range | None = None) -> pa.Table:
        """Return every time that some rows come, up to the end of the last state's pass.

        Steps whose rows are not known are left out.

        Parameters
        ----------
        rows : sequence of int or boolean array
            Numbers of the rows, or one boolean for each row.
        epochs : range, optional
            The epochs to search, if the pass never ends.

        Returns
        -------
        pyarrow.Table
            int64 columns ``row``, ``epoch``, ``batch`` and ``rank``. The batch is the step.

        Raises
        ------
        InvalidArgumentError
            If there is no such row, or the pass never ends and `epochs` is not given.
        StateMismatchError
            If a state describes only one of several ranks.
        """
        tables = []
        for begin, stop, trace in self._passes(1):
            if isinstance(trace, str):
                continue
            table = trace.find(rows, epochs if trace.num_batches() is None else None)
            steps = pc.add(table["batch"], begin)
            table = table.set_column(2, "batch", steps)
            tables.append(table if stop is None else table.filter(pc.less(steps, stop)))
        return pa.concat_tables(tables or [self._known[-1].find([])])

    def shard_and_row(self, row: int) -> tuple[int, int]:
        """Return the number of the shard that holds a row, and the row's number in it."""
        return self._known[-1].shard_and_row(row)

    @property
    def _known(self) -> list[Trace]:
        return [one.trace for one in self._parts if isinstance(one.trace, Trace)]

    def _passes(self, most: int | None = None) -> Iterator[_Part]:
        """Yield the passes in the order of their steps; of the last state, at most this many."""
        for one in self._parts:
            yield from islice(_passes_of(one), most if one.stop is None else None)


def _passes_of(part: _Part) -> Iterator[_Part]:
    """Yield the passes from a state on, up to the step at which the next state begins."""
    begin, stop, trace = part
    if isinstance(trace, str):
        yield part
        return
    while stop is None or begin < stop:
        count = trace.num_batches()
        end = begin + (count or 0)
        yield _Part(begin, stop if not count else end if stop is None else min(end, stop), trace)
        if not count:  # it never ends, or all of its batches are dropped
            return
        begin, trace = end, trace.following()
