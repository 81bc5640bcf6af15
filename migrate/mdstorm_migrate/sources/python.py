"""Python files: modules, scripts with or without ``# %%`` cells, and Databricks notebooks."""

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

from mdstorm_migrate.base.document import (
    DATABRICKS_HEADER,
    DecodedFile,
    Document,
    Shift,
    TextSegment,
)
from mdstorm_migrate.base.edits import EditError, Lines
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.sources.cells import whole_or_cells
from mdstorm_migrate.sources.decoding import decode_python

#: The line that begins a cell in VS Code, Spyder and Jupytext. Cells may contain magics.
_CELL = re.compile(r"^#[ ]?%%[^\r\n]*(?:\r?\n)?", re.MULTILINE)

_SUFFIXES = {".py", ".pyi", ".pyw"}


class PythonSource:
    """A module or script: one document, or one per cell if only the cells are valid Python."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether the file is a Python source rather than a Databricks notebook."""
        return path.suffix in _SUFFIXES and not head.startswith(DATABRICKS_HEADER)

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return the file, decoded in the encoding that its first lines declare."""
        text, mark, encoding = decode_python(data)
        others = [*commented_documents(text, path), *script_metadata(text, path)]
        if "%%" not in text or _CELL.search(text) is None:
            documents = [Document("python", [TextSegment(text)], path), *others]
            return DecodedFile(text, documents, encoding, mark)
        documents, broken, unparsed = whole_or_cells(text, path, _CELL)
        documents += others
        return DecodedFile(text, documents, encoding, mark, broken, unparsed)


_COMMAND = re.compile(r"^# COMMAND -+[ \t]*\r?\n?", re.MULTILINE)
_PREFIX = "# MAGIC "
_MAGIC_LINE = re.compile(r"^# MAGIC ?(?P<text>[^\r\n]*(?:\r?\n)?)", re.MULTILINE)
#: The first line of a ``%python`` cell, which may contain code.
_PYTHON_CELL = re.compile(r"[ \t]*%python\b[ \t]*(?P<code>.*)", re.DOTALL)


class DatabricksSource:
    """A Databricks notebook as a Python file, with magics in ``# MAGIC`` comments."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether the first line is the header of a Databricks notebook."""
        return path.suffix == ".py" and head.startswith(DATABRICKS_HEADER)

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return the notebook as one Python document, or cell by cell if it is not valid Python.

        Cells of ``%python`` share names with the other cells and belong to the same document.
        """
        text, mark, encoding = decode_python(data)
        cells = list(_magic_cells(text))
        cuts = tuple(cut for cell in cells for cut in _prefixes(cell))
        code = Uncommented(text, cuts, _PREFIX)
        documents, broken, unparsed = whole_or_cells(code.text, path, _COMMAND, code)
        for cell in cells:
            documents += _magic_documents(cell, path)
        return DecodedFile(text, documents, encoding, mark, broken, unparsed)


def _magic_cells(text: str) -> Iterator[list[re.Match[str]]]:
    """Yield the groups of adjacent magic lines; each group is one cell."""
    lines: list[re.Match[str]] = []
    for match in _MAGIC_LINE.finditer(text):
        if lines and match.start() != lines[-1].end():
            yield lines
            lines = []
        lines.append(match)
    if lines:
        yield lines


def _prefixes(cell: list[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """Yield the comment prefixes in a ``%python`` cell, except on a first line without code."""
    first = _PYTHON_CELL.match(cell[0]["text"])
    if first is None:
        return
    if first["code"].strip():
        yield cell[0].start(), cell[0].start("text") + first.start("code")
    yield from ((line.start(), line.start("text")) for line in cell[1:])


def _magic_documents(cell: list[re.Match[str]], path: PurePath | None) -> Iterator[Document]:
    """Yield the document of a cell that is not Python."""
    lines = [TextSegment(line["text"], Shift(line.start("text"))) for line in cell]
    first = lines[0].text.strip()
    if re.match(r"%(sh|bash)\b", first):
        yield Document("shell", lines, path)
    elif re.match(r"%(md|md-sandbox|python|sql|scala|r|fs)\b", first):
        if _PYTHON_CELL.match(lines[0].text) is None:
            yield Document("other", lines, path)
    else:
        yield Document("magic", lines, path)


#: Script metadata as defined by PEP 723.
_BLOCK = re.compile(
    r"^# /// script[ \t]*\r?\n(?P<content>(?:#(?:[ ][^\r\n]*)?\r?\n)+?)# ///[ \t]*\r?$",
    re.MULTILINE,
)
_COMMENT = re.compile(r"^#[ ]?", re.MULTILINE)


def script_metadata(text: str, path: PurePath | None) -> Iterator[Document]:
    """Yield a script's metadata as a ``pyproject.toml``, which has the same keys."""
    for block in _BLOCK.finditer(text) if "# /// script" in text else ():
        segment = uncommented_lines(text, *block.span("content"), _COMMENT, "# ")
        yield Document("pyproject", [segment], path)


#: The first line of a cell, with its title and its metadata.
_MARKER = re.compile(r"^#[ ]%%(?P<about>[^\r\n]*)(?:\r?\n)?", re.MULTILINE)
#: The header of a Jupytext notebook, whose cells need not begin with ``# %%``.
_HEADER = re.compile(r"\A(?:#[^\n]*\n)*#[ ]+jupytext:", re.MULTILINE)
_NO_CODE = re.compile(r"\[(?:markdown|md|raw)\]")
#: The metadata of a cell whose lines are all comments, because it is not Python.
_SHELL = re.compile(r"""\blanguage=["'](?:bash|sh)["']""")
_MAGIC = re.compile(r"^#[ ]?(?P<magic>(?:!|%(?!%))\w[^\r\n]*)", re.MULTILINE)


def commented_documents(text: str, path: PurePath | None) -> Sequence[Document]:
    """Return the magics in the comments of a script with cells, or nothing for other scripts."""
    is_notebook = "# %%" in text or "jupytext:" in text  # few files are, and these are quick tests
    if not is_notebook or (OLD_ROOT not in text.lower() and NEW_ROOT not in text):
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
    """Yield the magics in a cell, or the whole cell for a shell; nothing if it contains no code."""
    if _SHELL.search(about):
        yield Document("shell", [uncommented_lines(text, start, stop, _COMMENT, "# ")], path)
        return
    for magic in _MAGIC.finditer(text, start, stop) if not _NO_CODE.search(about) else ():
        yield Document("magic", [TextSegment(magic["magic"], Shift(magic.start("magic")))], path)


def _strings(text: str) -> list[tuple[int, int]]:
    """Return the spans of multi-line strings, or an empty list if the text is not valid Python."""
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
    """The text of a file without the comment prefixes of some lines.

    Attributes
    ----------
    file : str
        The text of the file, or of a part of it.
    cuts : tuple of (int, int)
        The spans of the removed prefixes, in textual order; each is at the beginning of a line.
    prefix : str
        The prefix for new lines among them.
    offset : int
        Where the part begins in the file.
    """

    file: str
    cuts: tuple[tuple[int, int], ...]
    prefix: str
    offset: int = 0

    @cached_property
    def text(self) -> str:
        """The text without the prefixes."""
        pieces, position = [], 0
        for start, stop in self.cuts:
            pieces.append(self.file[position:start])
            position = stop
        return "".join([*pieces, self.file[position:]])

    @cached_property
    def _places(self) -> list[int]:
        """Where in `text` a prefix was removed, in textual order."""
        found, gone = [], 0
        for start, stop in self.cuts:
            found.append(start - gone)
            gone += stop - start
        return found

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file. Whole lines include their prefixes."""
        at = self._place(start, is_before=start != stop and self._is_whole(start, stop))
        return at, at if start == stop else self._place(stop, is_before=True)

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` with the prefix on each of its new lines.

        Raises
        ------
        EditError
            If a line would be joined to the next one.
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
        """Return the position in the file of a character, before or after a removed prefix."""
        search = bisect.bisect_left if is_before else bisect.bisect_right
        cuts = self.cuts[: search(self._places, offset)]
        return self.offset + offset + sum(stop - start for start, stop in cuts)

    def _is_whole(self, start: int, stop: int) -> bool:
        return start in self._places and self.text[stop - 1] == "\n"

    def _is_commented(self, offset: int) -> bool:
        """Whether a character is on a line whose prefix was removed."""
        return self.text.rfind("\n", 0, offset) + 1 in self._places


def uncommented_lines(
    text: str, start: int, stop: int, pattern: re.Pattern[str], prefix: str
) -> TextSegment:
    """Return lines of a file as a segment, without the prefixes that `pattern` matches."""
    part = text[start:stop]
    cuts = tuple(match.span() for match in pattern.finditer(part))
    placement = Uncommented(part, cuts, prefix, start)
    return TextSegment(placement.text, placement)


SOURCES = (PythonSource(), DatabricksSource())
