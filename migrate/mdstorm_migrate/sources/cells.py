"""Documents of a notebook's cells: one for all Python cells, one for each other cell.

A cell that cannot be parsed, such as one of prose, is stepped over. If it names Petastorm in
code, it is reported.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import NamedTuple

from mdstorm_migrate.base.document import (
    MARK,
    Document,
    Kind,
    Placement,
    Segment,
    Shift,
    SourceError,
)
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.module import parse_python
from mdstorm_migrate.sources.magics import (
    HEAD,
    Language,
    Magic,
    Masked,
    blank,
    is_indented,
    language_of,
    mask,
    written_name,
)
from mdstorm_migrate.sources.plain import kind_of

#: What names Petastorm in code, not in prose, and a TODO.
_NAMED = re.compile(
    rf"\b(?:from|import)[ \t]+{OLD_ROOT}\b|\b{OLD_ROOT}\.\w|\binstall\b[^\r\n]*\b{OLD_ROOT}\b"
    rf"|{re.escape(MARK)}"
)
#: An import in a cell that cannot be parsed.
_IMPORTS = re.compile(
    rf"""^(?:\#[ ]MAGIC[ \t])?[ \t]*
    (?: from[ \t]+ | import[ \t]+(?:[\w.]+[ \t]*,[ \t]*)* ) {OLD_ROOT}\b""",
    re.MULTILINE | re.VERBOSE,
)


#: What becomes of cells in other languages than Python.
_KINDS: dict[Language, Kind] = {"shell": "shell", "settings": "cluster", "other": "other"}


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


class CellDocuments(NamedTuple):
    """Documents of cells, what is wrong with cells that use Petastorm, how many are no Python."""

    documents: list[Document]
    broken: Sequence[SourceError] = ()
    unparsed: int = 0


def documents_of(cells: Iterable[Cell], path: PurePath | None) -> CellDocuments:
    """Return the documents of a notebook.

    Python cells are one document, since they share their names. Of a cell that cannot be parsed,
    they see the text and no code, so that a name that it may use keeps its meaning.
    """
    segments: list[Segment] = []
    code: list[str] = []
    others: list[Document] = []
    failed: list[tuple[Cell, SourceError]] = []
    for cell in cells:
        language, body = language_of(cell.text)
        if written := written_name(cell.text):
            try:
                others.append(_written(cell, *written, path))
            except SourceError as error:
                failed.append((cell, error))
        elif language == "python":
            try:
                masked = mask(cell.text)
            except SourceError as error:
                masked = Masked(blank(cell.text))
                failed.append((cell, error))
            found, masked_code = _python(cell, masked.code)
            segments += found
            code.append(masked_code)
            others += [Document("magic", [one], path) for one in _magics(cell, masked.magics)]
        else:
            others.append(Document(_KINDS[language], [cell.segment(body, len(cell.text))], path))
    python = Document("python", segments, path, code="".join(code))
    broken = [_in_file(error, cell) for cell, error in failed if _NAMED.search(cell.text)]
    return CellDocuments([python, *others], broken, len(failed))


def _written(cell: Cell, name: str, body: int, path: PurePath | None) -> Document:
    """Return the file that a cell writes: its names are not those of the other cells."""
    segment = cell.segment(body, len(cell.text))
    file = PurePath(name)
    if file.suffix not in (".py", ".pyi", ".pyw"):
        return Document(kind_of(file) or "other", [segment], path)
    before = cell.text.count("\n", 0, body)
    try:
        parse_python(segment.text)
    except SourceError as error:
        line = None if error.line is None else error.line + before
        raise SourceError(str(error), line) from None
    return Document("python", [segment], path)


def whole_or_cells(
    text: str, path: PurePath | None, divider: re.Pattern[str], placement: Placement | None = None
) -> CellDocuments:
    """Return the documents of a Python file with cells, as `documents_of` does.

    It is one document if it is Python as a whole.

    Parameters
    ----------
    text : str
    path : PurePath or None
    divider : re.Pattern
        What a cell begins behind.
    placement : Placement, optional
        Where the text stands in the file, if it is not all of it.
    """
    whole = placement or Shift()
    try:
        parse_python(text)
        return CellDocuments([Document("python", [Segment(text, whole)], path)])
    except SourceError:
        bounds = [0, *(match.end() for match in divider.finditer(text)), len(text)]
    cells = (
        Cell(number, text[start:stop], SubPlacement(whole, start), text.count("\n", 0, start))
        for number, (start, stop) in enumerate(itertools.pairwise(bounds), 1)
    )
    return documents_of(cells, path)


def _in_file(error: SourceError, cell: Cell) -> SourceError:
    """Return an error of a cell with the place where readers find it."""
    line = None if error.line is None else error.line + (cell.first_line or 0)
    imports = _IMPORTS.search(cell.text) is not None
    return SourceError(f"this cell was left as it is: {error}", line, cell.number, imports)


def _python(cell: Cell, code: str) -> tuple[list[Segment], str]:
    """Return the segments of a cell, and its code without magics."""
    head, end = HEAD if is_indented(code) else "", "\n"
    whole = cell.segment(0, len(cell.text))
    segments = [Segment(head, None), whole, Segment(end, None)]
    return [one for one in segments if one.text], f"{head}{code}{end}"


def _magics(cell: Cell, magics: Iterable[Magic]) -> Iterator[Segment]:
    for magic in magics:
        yield cell.segment(magic.line, magic.stop)
