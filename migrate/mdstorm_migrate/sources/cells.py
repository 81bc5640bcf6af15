"""Documents of a notebook's cells: one for all Python cells, one for each other cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath

from mdstorm_migrate.base.document import (
    Document,
    Kind,
    Placement,
    Segment,
    SourceError,
)
from mdstorm_migrate.sources.magics import HEAD, Magic, is_indented, language_of, mask


@dataclass(frozen=True)
class SubPlacement:
    """The placement of a piece of another one's text, from character `offset` on."""

    whole: Placement
    offset: int

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file."""
        return self.whole.span(start + self.offset, stop + self.offset)

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return what is written in the file."""
        return self.whole.spell(replacement, start + self.offset, stop + self.offset)


@dataclass(frozen=True)
class Cell:
    """A code cell.

    Attributes
    ----------
    number : int
        From 1, among all cells.
    text : str
    placement : Placement
        Where the text stands in the file.
    first_line : int or None
        Line of the file on which it begins, less one; None if lines count within the cell.
    """

    number: int
    text: str
    placement: Placement
    first_line: int | None = None

    def segment(self, start: int, stop: int) -> Segment:
        """Return a piece of the cell."""
        piece = Segment(self.text[start:stop], SubPlacement(self.placement, start))
        if self.first_line is not None:
            return piece
        return replace(piece, cell=self.number, first_line=self.text.count("\n", 0, start))


def documents_of(cells: Iterable[Cell], path: PurePath | None) -> list[Document]:
    """Return the documents of a notebook.

    Python cells are one document, since they share their names.

    Raises
    ------
    SourceError
        If a Python cell cannot be parsed, with its number.
    """
    segments: list[Segment] = []
    code: list[str] = []
    others: list[Document] = []
    for cell in cells:
        language, body = language_of(cell.text)
        if language == "python":
            found, masked, magics = _python(cell)
            segments += found
            code.append(masked)
            others += [Document("magic", [one], path) for one in _magics(cell, magics)]
        else:
            kind: Kind = "shell" if language == "shell" else "other"
            others.append(Document(kind, [cell.segment(body, len(cell.text))], path))
    return [Document("python", segments, path, code="".join(code)), *others]


def _python(cell: Cell) -> tuple[list[Segment], str, tuple[Magic, ...]]:
    """Return the segments of a cell, its code without magics, and these."""
    try:
        masked = mask(cell.text)
    except SourceError as error:
        line = None if error.line is None else error.line + (cell.first_line or 0)
        raise SourceError(str(error), line, cell.number) from None
    head, end = HEAD if is_indented(masked.code) else "", "\n"
    whole = cell.segment(0, len(cell.text))
    segments = [Segment(head, None), whole, Segment(end, None)]
    return [one for one in segments if one.text], f"{head}{masked.code}{end}", masked.magics


def _magics(cell: Cell, magics: Iterable[Magic]) -> Iterator[Segment]:
    for magic in magics:
        yield cell.segment(magic.start, magic.stop)
