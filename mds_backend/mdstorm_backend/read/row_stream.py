"""Join the rows of many windows into a stream that is cut into batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mdstorm_backend.read.window import Range, Window


class Position(NamedTuple):
    """Between two batches: where a reader stands.

    Attributes
    ----------
    epoch, row : int
        So many rows of that epoch have been delivered.
    batches : int
        Batches delivered since the pass began.
    """

    epoch: int = 0
    row: int = 0
    batches: int = 0


class RowStream:
    """Rows to be taken in any number.

    Parameters
    ----------
    windows : iterator of (int, int, int, Window)
        Epoch, the first row to use and the one after the last, and the window.
    start : Position
        Where the first of them stands.
    """

    def __init__(self, windows: Iterator[tuple[int, int, int, Window]], start: Position) -> None:
        self._windows = windows
        self._window: Window | None = None
        self._next_row = self._stop = 0
        self.position = start

    def take(self, size: int, ranges: list[Range]) -> int:
        """Append the next `size` rows to `ranges`.

        Returns
        -------
        int
            Rows appended: fewer than `size` only where the stream ends.
        """
        num_taken = 0
        while num_taken < size and self._advance():
            assert self._window is not None
            start = self._next_row
            stop = min(start + size - num_taken, self._stop)
            last = ranges[-1] if ranges else None
            if last is not None and last.window is self._window and last.stop == start:
                ranges[-1] = Range(self._window, last.start, stop)
            else:
                ranges.append(Range(self._window, start, stop))
            self._next_row = stop
            num_taken += stop - start
            self.position = Position(
                self.position.epoch, self.position.row + stop - start, self.position.batches
            )
        self.position = Position(self.position.epoch, self.position.row, self.position.batches + 1)
        return num_taken

    def _advance(self) -> bool:
        """Move to a window with rows left; False at the end of the stream."""
        while self._window is None or self._next_row == self._stop:
            following = next(self._windows, None)
            if following is None:
                self._window = None
                return False
            epoch, self._next_row, self._stop, self._window = following
            if epoch != self.position.epoch:
                self.position = Position(epoch, 0, self.position.batches)
        return True
