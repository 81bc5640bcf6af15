"""Parts of a document, and where their characters stand in the text of the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Placement(Protocol):
    """Where the characters of a segment stand in the text of the file."""

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file of the span `start:stop` of the segment."""

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` as it is written in the file in place of `start:stop`."""


@dataclass(frozen=True)
class Shift:
    """A segment that stands in the file as it is, from character `offset` on."""

    offset: int = 0

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file."""
        return start + self.offset, stop + self.offset

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` unchanged."""
        return replacement


@dataclass(frozen=True)
class Segment:
    """A part of a document.

    Attributes
    ----------
    text : str
        What rules see.
    placement : Placement or None
        None: text that the file does not have, such as the line between two cells.
    cell : int or None
        Number of the notebook's cell, from 1, if lines count within it.
    first_line : int
        With `cell`: line of the cell on which the segment begins, less one.
    """

    text: str
    placement: Placement | None = Shift()
    cell: int | None = None
    first_line: int = 0
