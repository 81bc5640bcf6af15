"""Python files: modules, scripts, also with cells between ``# %%``, and notebooks of Databricks."""

from __future__ import annotations

import bisect
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath

from mdstorm_migrate.base.document import DATABRICKS_HEADER, DecodedFile, Document, Segment, Shift
from mdstorm_migrate.base.edits import EditError, Lines
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.sources.cells import whole_or_cells
from mdstorm_migrate.sources.plain import decode_python

#: What cells begin with in VS Code, Spyder and Jupytext; they may hold magics.
_CELL = re.compile(r"^#[ ]?%%[^\r\n]*(?:\r?\n)?", re.MULTILINE)

_SUFFIXES = {".py", ".pyi", ".pyw"}


class PythonSource:
    """A module or a script: one Python document; cell by cell if only its cells are Python."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether it is Python, and no notebook."""
        return path.suffix in _SUFFIXES and not head.startswith(DATABRICKS_HEADER)

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return the text in the encoding that its first lines declare."""
        text, mark, encoding = decode_python(data)
        others = [*commented_documents(text, path), *script_metadata(text, path)]
        if _CELL.search(text) is None:
            documents = [Document("python", [Segment(text)], path), *others]
            return DecodedFile(text, documents, encoding, mark)
        documents, broken, unparsed = whole_or_cells(text, path, _CELL)
        documents += others
        return DecodedFile(text, documents, encoding, mark, broken, unparsed)


_COMMAND = re.compile(r"^# COMMAND -+[ \t]*\r?\n?", re.MULTILINE)
_PREFIX = "# MAGIC "
_MAGIC_LINE = re.compile(r"^# MAGIC ?(?P<text>[^\r\n]*(?:\r?\n)?)", re.MULTILINE)
#: The first line of a cell in Python, which may hold code.
_PYTHON_CELL = re.compile(r"[ \t]*%python\b[ \t]*(?P<code>.*)", re.DOTALL)


class DatabricksSource:
    """A notebook as a Python file: magics stand in comments that begin with ``# MAGIC``."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether the first line says so."""
        return path.suffix == ".py" and head.startswith(DATABRICKS_HEADER)

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return it as one Python document; cell by cell if it is not Python as a whole.

        Cells of ``%python`` share the names of the others, and belong to it.
        """
        text, mark, encoding = decode_python(data)
        cells = list(_magic_cells(text))
        cuts = tuple(cut for cell in cells for cut in _prefixes(cell))
        code = Uncommented(text, cuts, _PREFIX)
        documents, broken, unparsed = whole_or_cells(code.text, path, _COMMAND, code)
        for cell in cells:
            documents += _of_magics(cell, path)
        return DecodedFile(text, documents, encoding, mark, broken, unparsed)


def _magic_cells(text: str) -> Iterator[list[re.Match[str]]]:
    """Yield neighbouring magic lines: they are one cell."""
    lines: list[re.Match[str]] = []
    for match in _MAGIC_LINE.finditer(text):
        if lines and match.start() != lines[-1].end():
            yield lines
            lines = []
        lines.append(match)
    if lines:
        yield lines


def _prefixes(cell: list[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """Yield what makes a cell of Python a comment: a magic alone on its line may be one."""
    first = _PYTHON_CELL.match(cell[0]["text"])
    if first is None:
        return
    if first["code"].strip():
        yield cell[0].start(), cell[0].start("text") + first.start("code")
    yield from ((line.start(), line.start("text")) for line in cell[1:])


def _of_magics(cell: list[re.Match[str]], path: PurePath | None) -> Iterator[Document]:
    """Yield the documents of a cell, but for Python."""
    lines = [Segment(line["text"], Shift(line.start("text"))) for line in cell]
    first = lines[0].text.strip()
    if re.match(r"%(sh|bash)\b", first):
        yield Document("shell", lines, path)
    elif re.match(r"%(md|md-sandbox|python|sql|scala|r|fs)\b", first):
        if _PYTHON_CELL.match(lines[0].text) is None:
            yield Document("other", lines, path)
    else:
        yield Document("magic", lines, path)


#: The block, as PEP 723 has it.
_BLOCK = re.compile(
    r"^# /// script[ \t]*\r?\n(?P<content>(?:#(?:[ ][^\r\n]*)?\r?\n)+?)# ///[ \t]*\r?$",
    re.MULTILINE,
)
_COMMENT = re.compile(r"^#[ ]?", re.MULTILINE)


def script_metadata(text: str, path: PurePath | None) -> Iterator[Document]:
    """Yield the metadata of a script as a ``pyproject.toml``, which has the same keys."""
    for block in _BLOCK.finditer(text):
        segment = uncommented_lines(text, *block.span("content"), _COMMENT, "# ")
        yield Document("pyproject", [segment], path)


#: What a cell begins with, with its title and its metadata.
_MARKER = re.compile(r"^#[ ]%%(?P<about>[^\r\n]*)(?:\r?\n)?", re.MULTILINE)
#: What the first lines of such a notebook say, if it has no such markers.
_HEADER = re.compile(r"\A(?:#[^\n]*\n)*#[ ]+jupytext:", re.MULTILINE)
_NO_CODE = re.compile(r"\[(?:markdown|md|raw)\]")
_MAGIC = re.compile(r"^#[ ]?(?P<magic>(?:!|%(?!%))\w[^\r\n]*)", re.MULTILINE)


def commented_documents(text: str, path: PurePath | None) -> Sequence[Document]:
    """Return what stands in comments of a script with cells; nothing of another one."""
    if OLD_ROOT not in text.lower() and NEW_ROOT not in text:
        return ()
    markers = list(_MARKER.finditer(text))
    if not markers and _HEADER.match(text) is None:
        return ()
    cells = [(0, 0, ""), *((one.start(), one.end(), one["about"]) for one in markers)]
    bounds = [*cells, (len(text), len(text), "")]
    found = [
        document
        for (_, start, about), (stop, _, _) in pairwise(bounds)
        for document in _documents(text, start, stop, about.strip(), path)
    ]
    strings = _strings(text) if found else []
    return [one for one in found if not any(_begins_in(one, *span) for span in strings)]


def _documents(
    text: str, start: int, stop: int, about: str, path: PurePath | None
) -> Iterator[Document]:
    """Yield the magics of a cell, but of one without code."""
    for magic in _MAGIC.finditer(text, start, stop) if not _NO_CODE.search(about) else ():
        yield Document("magic", [Segment(magic["magic"], Shift(magic.start("magic")))], path)


def _strings(text: str) -> list[tuple[int, int]]:
    """Return where strings of several lines stand; nothing if the text is not Python as a whole."""
    lines = Lines(text)
    try:
        return [
            (lines.starts[one.start[0] - 1], lines.starts[one.end[0] - 1])
            for one in tokenize.generate_tokens(io.StringIO(text, newline="").readline)
            if one.start[0] < one.end[0] and "#" in one.string
        ]
    except (tokenize.TokenError, SyntaxError):
        return []


def _begins_in(document: Document, start: int, stop: int) -> bool:
    placement = document.segments[0].placement
    return placement is not None and start < placement.span(0, 0)[0] <= stop


@dataclass(frozen=True)
class Uncommented:
    """The text of a file without what some of its lines begin with.

    Attributes
    ----------
    file : str
        The text of the file, or a part of it.
    cuts : tuple of (int, int)
        Where it has what is left out, in its order: at the beginnings of lines.
    prefix : str
        What new lines among these begin with.
    offset : int
        Where the part begins in the file.
    """

    file: str
    cuts: tuple[tuple[int, int], ...]
    prefix: str
    offset: int = 0

    @cached_property
    def text(self) -> str:
        """What is left."""
        pieces, position = [], 0
        for start, stop in self.cuts:
            pieces.append(self.file[position:start])
            position = stop
        return "".join([*pieces, self.file[position:]])

    @cached_property
    def _places(self) -> list[int]:
        """Where in `text` something was left out, in its order."""
        found, gone = [], 0
        for start, stop in self.cuts:
            found.append(start - gone)
            gone += stop - start
        return found

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file. Whole lines are taken with what they begin with."""
        at = self._place(start, is_before=start != stop and self._is_whole(start, stop))
        return at, at if start == stop else self._place(stop, is_before=True)

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` with the prefix on each new line of it.

        Raises
        ------
        EditError
            If it would join a line to the next one.
        """
        if not self._is_commented(start):
            return replacement
        if start == stop:
            return replacement.replace("\n", f"\n{self.prefix}")
        if self._is_whole(start, stop):
            return re.sub(r"^(?=.)", lambda _: self.prefix, replacement, flags=re.M | re.S)
        if self.text[stop - 1] == "\n" and not replacement.endswith("\n"):
            raise EditError("lines of a comment would be joined")
        return re.sub(r"\n(?=.)", f"\n{self.prefix}", replacement, flags=re.DOTALL)

    def _place(self, offset: int, *, is_before: bool) -> int:
        """Return a character of `text` in the file; where some are left out, before or behind."""
        search = bisect.bisect_left if is_before else bisect.bisect_right
        cuts = self.cuts[: search(self._places, offset)]
        return self.offset + offset + sum(stop - start for start, stop in cuts)

    def _is_whole(self, start: int, stop: int) -> bool:
        return start in self._places and self.text[stop - 1] == "\n"

    def _is_commented(self, offset: int) -> bool:
        """Whether a character is on a line of which something was left out."""
        return self.text.rfind("\n", 0, offset) + 1 in self._places


def uncommented_lines(
    text: str, start: int, stop: int, pattern: re.Pattern[str], prefix: str
) -> Segment:
    """Return lines of a file, without what `pattern` finds at their beginnings, as a segment."""
    part = text[start:stop]
    cuts = tuple(match.span() for match in pattern.finditer(part))
    placement = Uncommented(part, cuts, prefix, start)
    return Segment(placement.text, placement)


SOURCES = (PythonSource(), DatabricksSource())
