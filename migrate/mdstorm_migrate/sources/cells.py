"""Documents of a notebook's cells: one for all Python cells, and one for each other cell.

A cell that cannot be parsed, such as prose, is skipped; if it mentions a library in code, it is
reported.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import NamedTuple

from mdstorm_migrate.base.document import (
    Document,
    DocumentKind,
    Placement,
    Shift,
    SourceError,
    TextSegment,
)
from mdstorm_migrate.base.todos import MARK
from mdstorm_migrate.mosaicml.names import ROOT
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

#: For each library, the pattern of a mention in code rather than prose, or of a TODO comment.
_MENTIONS = {
    root: re.compile(
        rf"^(?:\#[ ]MAGIC[ ])?[ \t>]*(?:from|import(?:[ \t]+[\w.]+[ \t]*,)*)[ \t]+{root}\b"
        rf"|(?<![\w.]){root}\.\w|\binstall\b[^\r\n]*\b{root}\b|{re.escape(MARK)}",
        re.MULTILINE,
    )
    for root in (OLD_ROOT, ROOT)
}
#: An import in a cell that cannot be parsed.
_IMPORTS = re.compile(
    rf"""^(?:\#[ ]MAGIC[ \t])?[ \t]*
    (?: from[ \t]+ | import[ \t]+(?:[\w.]+[ \t]*,[ \t]*)* ) {OLD_ROOT}\b""",
    re.MULTILINE | re.VERBOSE,
)


#: An install command that is commented out.
_COMMENTED = re.compile(r"^[ \t]*#[ \t]*(?P<magic>[!%]?[ \t]?pip3?[ \t]+install\b[^\r\n]*)", re.M)
#: The kinds of cells in languages other than Python.
_KINDS: dict[Language, DocumentKind] = {"shell": "shell", "settings": "cluster", "other": "other"}


@dataclass(frozen=True)
class SubPlacement:
    """The placement of a piece of another placement's text, starting at character `offset`."""

    whole: Placement
    offset: int

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file for a span of the piece."""
        return self.whole.span(start + self.offset, stop + self.offset)

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` as it must be written in the file."""
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
        The place of the text in the file.
    first_line : int or None
        How many lines of the file precede the cell; None if lines count within the cell.
    """

    number: int
    text: str
    placement: Placement
    first_line: int | None = None

    def segment(self, start: int, stop: int) -> TextSegment:
        """Return the span `start:stop` of the cell as a segment."""
        piece = TextSegment(self.text[start:stop], SubPlacement(self.placement, start))
        if self.first_line is not None:
            return piece
        return replace(piece, cell=self.number, first_line=self.text.count("\n", 0, start))


class CellDocuments(NamedTuple):
    """Documents of cells, errors in cells that use a library, and the number of unparsed cells."""

    documents: list[Document]
    broken: Sequence[SourceError] = ()
    unparsed: int = 0


def documents_of(cells: Iterable[Cell], path: PurePath | None) -> CellDocuments:
    """Return the documents of a notebook's cells.

    Python cells form one document, because they share their names. For a cell that cannot be
    parsed, the document has the text but no code, so that names that the cell may use are kept.
    """
    segments: list[TextSegment] = []
    code: list[str] = []
    others: list[Document] = []
    failed: list[tuple[Cell, SourceError]] = []
    for cell in cells:
        language, body = language_of(cell.text)
        if written := written_name(cell.text):
            try:
                others.append(_written_file(cell, *written, path))
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
            magics = (*_magics(cell, masked.magics), *_commented(cell))
            others += [Document("magic", [one], path) for one in magics]
        else:
            others.append(Document(_KINDS[language], [cell.segment(body, len(cell.text))], path))
    python = Document("python", segments, path, code="".join(code))
    broken = [_in_file(error, cell) for cell, error in failed]
    return CellDocuments(
        [python, *others], [error for error in broken if error.libraries], len(failed)
    )


def _written_file(cell: Cell, name: str, body: int, path: PurePath | None) -> Document:
    """Return the document of a file that a cell writes; other cells do not share its names."""
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

    If the whole file is valid Python, it is one document.

    Parameters
    ----------
    text : str
    path : PurePath or None
    divider : re.Pattern
        The pattern after which a cell begins.
    placement : Placement, optional
        The place of the text in the file, if it is not the whole file.
    """
    whole = placement or Shift()
    try:
        parse_python(text)
        return CellDocuments([Document("python", [TextSegment(text, whole)], path)])
    except SourceError:
        bounds = [0, *(match.end() for match in divider.finditer(text)), len(text)]
    cells = (
        Cell(number, text[start:stop], SubPlacement(whole, start), text.count("\n", 0, start))
        for number, (start, stop) in enumerate(itertools.pairwise(bounds), 1)
    )
    return documents_of(cells, path)


def _in_file(error: SourceError, cell: Cell) -> SourceError:
    """Return a cell's error with its line in the file or, in Jupyter, in the cell."""
    line = None if error.line is None else error.line + (cell.first_line or 0)
    imports = _IMPORTS.search(cell.text) is not None
    libraries = frozenset(root for root, named in _MENTIONS.items() if named.search(cell.text))
    what = f"this cell was left as it is: {error}"
    return SourceError(what, line, cell.number, imports, libraries)


def _python(cell: Cell, code: str) -> tuple[list[TextSegment], str]:
    """Return the segments of a cell, and its code with magics masked."""
    head, end = HEAD if is_indented(code) else "", "\n"
    whole = cell.segment(0, len(cell.text))
    segments = [TextSegment(head, None), whole, TextSegment(end, None)]
    return [one for one in segments if one.text], f"{head}{code}{end}"


def _magics(cell: Cell, magics: Iterable[Magic]) -> Iterator[TextSegment]:
    for magic in magics:
        yield cell.segment(magic.line, magic.stop)


def _commented(cell: Cell) -> Iterator[TextSegment]:
    """Yield the install commands that a reader can uncomment."""
    for found in _COMMENTED.finditer(cell.text):
        yield cell.segment(*found.span("magic"))
