"""Plan batches of a transform's output so that every rank has the same number of batches.

How many rows a transform function returns is not known in advance. So batches are counted by the
function's input rows: a group of slices gets as many batches as would end within it if every row
were kept, and the rows returned for the group are spread evenly over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import numpy.typing as npt

from mdstorm_backend.order import ExactOrder, ceil_div


@dataclass
class Group:
    """Slices whose output rows are spread over the same batches.

    Attributes
    ----------
    windows : list of (int, int, list of range)
        The epoch, the number of the window in it, and the slices of each window.
    ends : list of int
        Where each batch ends, in rows read since the pass began.
    """

    windows: list[tuple[int, int, list[range]]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class EvenBatches:
    """The plan of the batches of one pass.

    Attributes
    ----------
    batch_size : int
        Input rows per batch.
    rows_per_epoch : int
        Rows of a rank in an epoch, the same on all ranks: a rank with one row less counts it too.
    num_epochs : int or None
        Epochs of a pass; None never ends.
    drop_last : bool
        Leave out the last batch if it is not full.
    """

    batch_size: int
    rows_per_epoch: int
    num_epochs: int | None
    drop_last: bool

    def __len__(self) -> int:
        assert self.num_epochs is not None
        rows, size = self.num_epochs * self.rows_per_epoch, self.batch_size
        return rows // size if self.drop_last else ceil_div(rows, size)

    def ends(self, start: int, stop: int) -> list[int]:
        """Return the ends of batches after `start` and up to `stop`."""
        size = self.batch_size
        ends = list(range((start // size + 1) * size, stop + 1, size))
        is_last = self.num_epochs is not None and stop == self.num_epochs * self.rows_per_epoch
        if is_last and stop % size and not self.drop_last:
            ends.append(stop)
        return ends

    def groups(
        self,
        order: ExactOrder,
        bounds: npt.NDArray[np.int64],
        rows: range,
        cut: Callable[[range], list[range]],
        first_epoch: int,
        start: int,
    ) -> Iterator[Group]:
        """Yield the groups that have batches ending after `start`.

        `Group.ends` of the first group includes batches that end earlier.

        Parameters
        ----------
        order, bounds, rows
            See `ExactOrder.pieces`.
        cut : callable
            Cuts a part of a shard into slices.
        first_epoch : int
            Epoch with which the pass began.
        start : int
            Rows read since then.
        """
        size = self.rows_per_epoch
        # The first group may begin in an earlier epoch, by at most the length of a batch.
        epoch = max(start // size - ceil_div(self.batch_size, size), 0)
        epochs = count(epoch) if self.num_epochs is None else range(epoch, self.num_epochs)
        group = Group()
        for epoch in epochs:
            at, end = epoch * size, (epoch + 1) * size
            windows = _windows(order, order.pieces(bounds, rows, first_epoch + epoch), cut)
            for number, slices in enumerate(windows):
                group.windows.append((first_epoch + epoch, number, slices))
                stop = at + sum(map(len, slices))
                stop = end if number == len(windows) - 1 else stop
                if ends := self.ends(at, stop):
                    group.ends = ends
                    if ends[-1] > start:
                        yield group
                    group = Group()
                at = stop


def _windows(
    order: ExactOrder, pieces: list[range], cut: Callable[[range], list[range]]
) -> list[list[range]]:
    """Join the slices of shard parts into windows, whose rows are shuffled together."""
    if not order.shuffles:
        return [[one] for piece in pieces for one in cut(piece)]
    windows: list[list[range]] = [[]]
    for piece in pieces:
        if sum(map(len, windows[-1])) >= max(order.window, 1):
            windows.append([])
        windows[-1] += cut(piece)
    return windows
