"""Split rows among ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


def ceil_div(dividend: int, divisor: int) -> int:
    """Divide integers, rounding up."""
    return (dividend + divisor - 1) // divisor


def batch_sizes(rows: int, batches: int, batch_size: int) -> Iterator[int]:
    """Cut `rows` into exactly `batches` batches of at most `batch_size` rows.

    All are full except at the end, where a rank with fewer rows splits the rest so that it has as
    many batches as the others; with nothing left to split, batches are empty.
    """
    for left in range(batches, 0, -1):
        size = min(batch_size, max(rows - (left - 1), 1), rows)
        rows -= size
        yield size


def rows_of_batches(rows: int, batches: int, batch_size: int, first: int) -> int:
    """Rows of the `first` batches that `batch_sizes` cuts."""
    return min(first * batch_size, max(rows - (batches - first), min(first, rows)))


class Split(NamedTuple):
    """How rows are split among ranks, consecutive ones to each.

    Attributes
    ----------
    world_size : int
        Number of ranks.
    padded_to : int
        Rows of a batch of one rank, where only the last global batch, of all ranks together, is to
        need padding: its rows fill one rank after the other. 0: sizes differ by one at most.
    """

    world_size: int
    padded_to: int = 0

    def share(self, num_rows: int, rank: int) -> range:
        """Return which of `num_rows` rows belong to a rank."""
        return range(self._begin(num_rows, rank), self._begin(num_rows, rank + 1))

    def _begin(self, num_rows: int, rank: int) -> int:
        if not self.padded_to:
            return rank * num_rows // self.world_size
        full = num_rows // (self.padded_to * self.world_size) * self.padded_to
        return rank * full + min(rank * self.padded_to, self.remainder(num_rows))

    def remainder(self, num_rows: int) -> int:
        """Return the rows of the last global batch if it is not full, else 0."""
        return num_rows % (self.padded_to * self.world_size) if self.padded_to else 0

    def last_size(self, num_rows: int) -> int:
        """Return the rows of each rank's batch in the last global batch, with padding.

        These are full batches, as Accelerate's own are. One rank alone needs no padding.
        """
        rest = self.remainder(num_rows)
        return self.padded_to if rest == 0 or self.world_size > 1 else rest

    def last_rows(self, num_rows: int, rank: int) -> int:
        """Return the rows of a rank's batch in the last global batch, without padding."""
        rest = self.remainder(num_rows) or self.world_size * self.padded_to
        return min(max(rest - rank * self.padded_to, 0), self.padded_to)

    def delivered(self, rows: int, batches: int, batch_size: int, first: int) -> int:
        """Return the rows of the `first` of all `batches` batches of a rank with so many rows."""
        if self.padded_to:
            return min(first * batch_size, rows)
        return rows_of_batches(rows, batches, batch_size, first)

    def batch_sizes(self, rows: int, batches: int, batch_size: int) -> Iterator[int]:
        """Cut the rows of a rank into its last `batches` batches."""
        if not self.padded_to:
            yield from batch_sizes(rows, batches, batch_size)
            return
        for _ in range(batches):
            size = min(batch_size, rows)
            rows -= size
            yield size


class Place(NamedTuple):
    """So many rows of an epoch were delivered, and all rows of the epochs before it."""

    epoch: int
    row: int


class PassRows(NamedTuple):
    """How many rows a rank has in each epoch of a pass.

    Attributes
    ----------
    first_epoch : int
        The epoch that comes first.
    stop_epoch : int or None
        The epoch after the last one; None if epochs never end.
    begun : tuple of int
        Rows of the first epochs, of which other rows were delivered before.
    per_epoch : int
        Rows of each epoch after those.
    """

    first_epoch: int
    stop_epoch: int | None
    begun: tuple[int, ...]
    per_epoch: int

    @property
    def total(self) -> int | None:
        """Rows of all epochs; None if they never end."""
        if self.stop_epoch is None:
            return None
        return self.before(Place(self.stop_epoch, 0))

    def of_epoch(self, epoch: int) -> int:
        """Rows of an epoch."""
        number = epoch - self.first_epoch
        return self.begun[number] if number < len(self.begun) else self.per_epoch

    def before(self, place: Place) -> int:
        """Rows that were delivered when the rank stands at a place."""
        epochs = place.epoch - self.first_epoch
        whole_epochs = max(epochs - len(self.begun), 0)
        return sum(self.begun[:epochs]) + whole_epochs * self.per_epoch + place.row

    def place(self, rows: int) -> Place:
        """Return where the rank stands after so many rows: at an end rather than a beginning."""
        epoch = self.first_epoch
        for of_epoch in self.begun:
            if rows <= of_epoch:
                return Place(epoch, rows)
            epoch, rows = epoch + 1, rows - of_epoch
        whole_epochs = max(rows - 1, 0) // max(self.per_epoch, 1)
        return Place(epoch + whole_epochs, rows - whole_epochs * self.per_epoch)
