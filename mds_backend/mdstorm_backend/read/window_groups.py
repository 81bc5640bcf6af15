"""`WindowGroup`: windows of a plan, and the batches over which their rows are spread.

All ranks make the same batches, which are planned by the stored rows. A group has as many windows
as it takes for a batch to end within it, so that its batches have rows although a transform has
left out some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import NamedTuple

from mdstorm_backend.errors import TransformError
from mdstorm_backend.order import RowPlan, ceil_div
from mdstorm_backend.read.block import Located


class PlannedWindow(NamedTuple):
    """A window before it is read.

    Attributes
    ----------
    epoch, number : int
        Its epoch, and its number in the epoch.
    slices : list of range
        The stored rows, as they are passed to the transform.
    """

    epoch: int
    number: int
    slices: list[range]

    @property
    def rows(self) -> int:
        """Number of stored rows."""
        return sum(map(len, self.slices))


@dataclass(frozen=True)
class WindowGroup:
    """Consecutive windows whose rows are spread evenly over the batches that end within them.

    Attributes
    ----------
    windows : sequence of PlannedWindow
        The windows.
    ends : sequence of int
        The stored rows of the pass up to the end of each batch.
    """

    windows: Sequence[PlannedWindow]
    ends: Sequence[int]

    @property
    def slices(self) -> Iterator[range]:
        """The slices of all windows."""
        return chain.from_iterable(window.slices for window in self.windows)

    def spread(self, windows: Sequence[Located]) -> Iterator[tuple[list[Located], int]]:
        """Yield the rows of each batch, in window order, and their number.

        Parameters
        ----------
        windows : sequence of Located
            The rows that a transform returned for each window.

        Raises
        ------
        TransformError
            If there are fewer rows than batches.
        """
        given, batches = sum(window.rows for window in self.windows), len(self.ends)
        rows = sum(map(len, windows))
        if rows < min(batches, given):  # with batches of one row, a rank may have one row fewer
            raise TransformError(
                f"a transform function returned {rows} rows for {given}, too few for the "
                f"{batches} batches that every rank makes. To leave out rows, pass predicate= or "
                "filters=, or leave them out before writing, but do not drop them in the function. "
                'If on_corrupt="skip" left out the rows, pass shuffling_queue_capacity=, so that '
                "the remaining rows are mixed with rows of other shards"
            )
        left, first = iter(windows), 0
        window = next(left)
        for number in range(batches):
            size = ceil_div(rows * (number + 1), batches) - ceil_div(rows * number, batches)
            missing, parts = size, []
            while missing:
                if first == len(window):
                    window, first = next(left), 0
                    continue
                stop = min(first + missing, len(window))
                parts.append(window[first:stop])
                missing, first = missing - stop + first, stop
            yield parts or [window[first - 1 : first]], size


def window_groups(
    plan: RowPlan, done: int, windows_of: Callable[[int], list[list[range]]]
) -> Iterator[WindowGroup]:
    """Yield the groups with batches that end after `done` stored rows of the pass.

    In the first group, some batches may end earlier.

    Parameters
    ----------
    plan : RowPlan
        The plan.
    done : int
        Number of rows.
    windows_of : callable
        Returns the slices of each window of an epoch.
    """
    size, first = plan.rows_per_epoch, plan.resolved_start.pass_epoch
    # The first group may begin in an earlier epoch, because a batch may span epochs.
    assert plan.even_size is not None
    begin = max(done // size - ceil_div(plan.even_size, size), 0)
    last = plan.batching.num_epochs
    epochs: Iterable[int] = count(begin) if last is None else range(begin, last)
    windows: list[PlannedWindow] = []
    for epoch in epochs:
        row, end = epoch * size, (epoch + 1) * size
        of_epoch = windows_of(first + epoch)
        for number, slices in enumerate(of_epoch):
            windows.append(PlannedWindow(first + epoch, number, slices))
            stop = end if number == len(of_epoch) - 1 else row + windows[-1].rows
            if ends := plan.ends(row, stop):
                if ends[-1] > done:
                    yield WindowGroup(windows, ends)
                windows = []
            row = stop
