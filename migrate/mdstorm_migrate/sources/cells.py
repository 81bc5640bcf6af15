"""Documents of a notebook's cells: one for all Python cells, and one for each other cell.

A cell that cannot be parsed, such as prose, is skipped; if it mentions a library in code, it is
reported. Lines for IPython (``%magic``, ``!command``, ``help?``) are masked so that the rest can be
parsed. A masked line keeps its length, so all positions stay the same.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Literal, NamedTuple, TypeAlias

from mdstorm_migrate.base.document import (
    MARK,
    Document,
    DocumentKind,
    Placement,
    Shift,
    SourceError,
    TextSegment,
)
from mdstorm_migrate.mosaicml.names import ROOT
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.module import parse_python
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


Language: TypeAlias = Literal["python", "shell", "settings", "other"]

#: Cell magics whose cells are still Python.
_PYTHON_CELLS = frozenset(
    {"capture", "local", "memit", "prun", "pyspark", "python", "python3", "time", "timeit"}
)
_SHELL_CELLS = frozenset({"bash", "sh", "script"})
#: Languages that Databricks declares with a single percent sign.
_OTHER_CELLS = frozenset({"fs", "md", "md-sandbox", "r", "scala", "sql"})

_FIRST_LINE = re.compile(r"\s*(?P<percent>%%?)(?P<name>[\w-]+)[^\n]*\n?")

#: The first line of a cell whose text is written or appended to a file.
_WRITTEN = re.compile(
    r"""\s*%%(?:write)?file[ \t]+(?:-a[ \t]+|--append[ \t]+)?
    (?P<quote>["']?)(?P<name>[^"'\r\n]+?)(?P=quote)[ \t]*(?:\r?\n|\Z)""",
    re.VERBOSE,
)

#: Tokens needed to find the end of a line: brackets, strings, comments, line breaks.
_PART = re.compile(
    r"""
      \#[^\r\n]*
    | '''.*?''' | \"\"\".*?\"\"\" | '(?:\\.|[^'\\\r\n])*' | "(?:\\.|[^"\\\r\n])*"  # strings
    | (?P<open>[(\[{]) | (?P<close>[)\]}])
    | \\(?:\r\n|\r|\n)  # a line that is joined to the next
    | (?P<newline>\r\n|\r|\n)
    | [^\#'"()\[\]{}\\\r\n]+ | .
    """,
    re.VERBOSE | re.DOTALL,
)
_MAGIC = re.compile(
    r"""
      [ \t]*(?P<line>[%!?][^\r\n]*)                            # %pip install x, !ls, ?len
    | [ \t]*(?P<help>[\w.%*]+\?{1,2})[ \t]*(?=[\r\n]|\Z)       # len?
    | [ \t]*[\w.,\ \[\]'"]+=[ \t]*(?P<value>(?:!|%\w)[^\r\n]*)   # files = !ls
    | [ \t]*(?P<plain>(?:pip3?|conda|mamba)[ ]+\w[^\r\n]*      # automagic: pip install x
        | (?:cat|cd|cp|ls|mkdir|mv|rm)[ ]+[^\s=(.,\[][^\r\n=(]*)(?=[\r\n]|\Z)
    """,
    re.VERBOSE,
)
_NAMES = ("line", "help", "value", "plain")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)?")


@dataclass(frozen=True)
class Magic:
    """A line that IPython handles, with its continuation lines."""

    #: Where the line begins, even if the magic does not, as in ``files = !ls``.
    line: int
    stop: int


@dataclass(frozen=True)
class Masked:
    """Python code with magics masked, of the same length, and the spans of the magics."""

    code: str
    magics: tuple[Magic, ...] = ()


def language_of(cell: str) -> tuple[Language, int]:
    """Return the language of a cell, judging by its first line, and where its code begins.

    After Databricks' ``%sh``, code begins on the same line; after ``%%sh``, options follow.
    """
    match = _FIRST_LINE.match(cell)
    if match is None:
        return "python", 0
    name, is_cell = match["name"], match["percent"] == "%%"
    if name in _SHELL_CELLS:
        return "shell", match.end() if is_cell else match.end("name")
    if is_cell and name == "configure":  # configures the Spark session, in JSON
        return "settings", match.end()
    if is_cell and name not in _PYTHON_CELLS:
        return "other", match.end()
    if not is_cell and name in _OTHER_CELLS:
        return "other", match.end("name")
    return "python", 0


def written_name(cell: str) -> tuple[str, int] | None:
    """Return the name of the file that a cell writes, and where the file's text begins."""
    match = _WRITTEN.match(cell)
    return None if match is None else (match["name"], match.end())


def mask(cell: str) -> Masked:
    """Return a Python cell with its magics masked; unchanged if it is already valid Python.

    Raises
    ------
    SourceError
        If the rest cannot be parsed, with the line in the cell.
    """
    try:
        parse_python(dedented(cell))
        return Masked(cell)
    except SourceError:
        masked = _masked(cell)
    parse_python(dedented(masked.code))
    return masked


def dedented(code: str) -> str:
    """Return code that can be parsed even if the original is indented, which IPython accepts."""
    return f"{HEAD}{code}" if is_indented(code) else code


#: The line that makes an indented cell the body of a block.
HEAD = "if 1:\n"


def is_indented(code: str) -> bool:
    """Whether the first line of code begins with whitespace."""
    first = re.search(r"^[ \t]*[^\s#]", code, re.MULTILINE)
    return first is not None and first.group()[0] in " \t"


def _masked(cell: str) -> Masked:
    pieces: list[str] = []
    magics: list[Magic] = []
    position = 0
    while position < len(cell):
        magic = _MAGIC.match(cell, position)
        if magic is None:
            stop = _end_of_logical_line(cell, position)
            pieces.append(cell[position:stop])
        else:
            start = next(magic.start(name) for name in _NAMES if magic[name] is not None)
            stop = _end_of_magic(cell, start)
            pieces += [cell[position:start], blank(cell[start:stop])]
            magics.append(Magic(magic.start(), stop))
        position = stop
    return Masked("".join(pieces), tuple(magics))


def _end_of_logical_line(text: str, position: int) -> int:
    """Return the end of the line, including lines joined by brackets, strings or backslashes."""
    depth = 0
    while position < len(text):
        part = _PART.match(text, position)
        assert part is not None
        position = part.end()
        if part["newline"] and depth <= 0:
            break
        depth += bool(part["open"]) - bool(part["close"])
    return position


def _end_of_magic(text: str, position: int) -> int:
    """Return the end of a magic; a backslash at the end of a line continues it."""
    while True:
        line = _LINE.match(text, position)
        assert line is not None
        content = line.group().rstrip("\r\n")
        if not content.endswith("\\") or line.end() == position or line.end() == len(text):
            return position + len(content)
        position = line.end()


def blank(text: str) -> str:
    """Return Python code that does nothing, with the same length and lines."""
    hidden = re.sub(r"[^\r\n]", "#", text)
    return re.sub(r"\A#", "0", hidden)
