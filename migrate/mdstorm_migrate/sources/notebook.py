"""Notebooks: Jupyter files, and Markdown pages for Jupytext, MyST, Quarto or R Markdown."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Any, TypeAlias

from mdstorm_migrate.base.document import (
    DecodedFile,
    Document,
    DocumentKind,
    Shift,
    SourceError,
    TextSegment,
)
from mdstorm_migrate.sources.cells import Cell, CellDocuments, documents_of
from mdstorm_migrate.sources.plain import decode, is_notebook

#: The names of Python kernels; sparkmagic's is called ``pyspark``.
_PYTHON = re.compile("i?python|pyspark|torchspark|tensorflowonspark")


class NotebookSource:
    """A Jupyter notebook of nbformat 3 or 4."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether the file is a Jupyter notebook."""
        return path.suffix == ".ipynb"

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return the cells."""
        text, mark = decode(data)
        notebook = _loaded(text)
        code, markdown = _cells_in(notebook, text)
        found = _documents(notebook, code, path) if code else CellDocuments([])
        prose = [Document("markdown", [cell.segment(0, len(cell.text))], path) for cell in markdown]
        documents = [*found.documents, *prose]
        return DecodedFile(text, documents, "utf-8", mark, found.broken, found.unparsed)


def code_cells(text: str) -> list[Cell]:
    """Return the code cells of a notebook, given the text of its file.

    Raises
    ------
    SourceError
        If the text is not a notebook.
    """
    return _cells_in(_loaded(text), text)[0]


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SourceError(f"broken JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise SourceError("broken JSON: nested too deeply") from None


def _documents(notebook: Any, cells: list[Cell], path: PurePath | None) -> CellDocuments:
    if _PYTHON.match(_language(notebook)):
        return documents_of(cells, path)
    return CellDocuments(
        [Document("other", [cell.segment(0, len(cell.text))], path) for cell in cells]
    )


def _language(notebook: Any) -> str:
    """Return the kernel's language in lower case, or ``python`` if the notebook specifies none."""
    try:
        metadata = notebook.get("metadata", {})
        info = metadata.get("language_info", {}).get("name")
        return str(info or metadata.get("kernelspec", {}).get("language") or "python").lower()
    except AttributeError:
        raise SourceError("not a notebook: its metadata is not an object") from None


def _cells_in(notebook: Any, text: str) -> tuple[list[Cell], list[Cell]]:
    """Return the code and Markdown cells, numbered among all cells as shown in notebooks."""
    spans: dict[Path, list[tuple[int, int]]] = {}
    for at, start, stop in strings_of(text):
        for key in ("source", "input"):
            if key in at:
                spans.setdefault(at[: at.index(key) + 1], []).append((start, stop))
    code: list[Cell] = []
    markdown: list[Cell] = []
    lists = {"code": code, "markdown": markdown}
    for number, (path, cell) in enumerate(_cells(notebook), 1):
        key = "source" if "source" in cell else "input"
        found = spans.get((*path, key))
        cells = lists.get(str(cell.get("cell_type")))
        if cells is not None and found is not None:
            strings = JsonStrings(text, found, isinstance(cell[key], list))
            cells.append(Cell(number, strings.text, strings))
    return code, markdown


def _cells(notebook: Any) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield all cells with their paths."""
    try:
        sheets: list[tuple[Path, Any]] = [((), notebook)]
        if "worksheets" in notebook:  # nbformat 3
            sheets = [
                (("worksheets", number), sheet)
                for number, sheet in enumerate(notebook["worksheets"])
            ]
        for path, sheet in sheets:
            for number, cell in enumerate(sheet.get("cells", ())):
                cell.get("cell_type")
                yield (*path, "cells", number), cell
    except (AttributeError, TypeError):
        raise SourceError("not a notebook: it has no list of cells") from None


_FENCE = re.compile(
    r"""^(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^\r\n`]*)\r?\n
    (?P<options>(?:---[ \t]*\r?\n(?:(?!---)[^\n]*\n)*?---[ \t]*\r?\n | (?::[\w-]+:[^\n]*\n)+)?)
    (?P<code>.*?)^(?P=fence)[ \t]*\r?$""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)
_PYTHON_BLOCK = re.compile(r"\{?\.?(?:i?python3?\b|code-cell\b)", re.IGNORECASE)
_SHELL = re.compile(r"\{?\.?(?:bash|console|sh|shell)\b", re.IGNORECASE)
_R = re.compile(r"\{r\b", re.IGNORECASE)
#: Options of cells that are shown but not run.
_SHOWN = re.compile(r"active=\"(?!ipynb)|\beval[ \t]*=[ \t]*(?:F\b|FALSE|false)")


def _kind(info: str) -> DocumentKind | None:
    """Return the kind of a block that is not Python, or None if the block is only shown."""
    if _SHELL.match(info):
        return "shell"
    return "text" if _R.match(info) else None


class PageSource:
    """A Markdown page whose fenced blocks are the cells of a notebook."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether the page is a notebook, judging by its front matter or suffix."""
        return is_notebook(path, head)

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return the cells, and the text between them as a Markdown document."""
        text, mark = decode(data)
        cells: list[Cell] = []
        others: list[Document] = []
        between: list[TextSegment] = []
        end = 0
        for number, block in enumerate(_FENCE.finditer(text), 1):
            start, stop = block.span("code")
            if _SHOWN.search(block["info"]):
                continue
            if _PYTHON_BLOCK.match(block["info"]):
                line = text.count("\n", 0, start)
                cells.append(Cell(number, block["code"], Shift(start), line))
            elif kind := _kind(block["info"]):
                others.append(Document(kind, [TextSegment(block["code"], Shift(start))], path))
            else:
                continue
            between.append(TextSegment(text[end:start], Shift(end)))
            end = stop
        between.append(TextSegment(text[end:], Shift(end)))
        found = documents_of(cells, path)
        documents = [*found.documents, *others, Document("markdown", between, path)]
        return DecodedFile(text, documents, "utf-8", mark, found.broken, found.unparsed)


#: Keys and indexes from the outermost value inward, such as ``("cells", 3, "source", 0)``.
Path: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair: one character
    r"|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)


def strings_of(text: str) -> Iterator[tuple[Path, int, int]]:
    """Yield the path and span, without quotes, of each string value in a valid JSON text."""
    path: list[str | int] = []
    key: str | None = None
    is_key = False
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first in "{[":
            path.append("" if first == "{" else 0)
            is_key = first == "{"
        elif first in "}]":
            path.pop()
            is_key = False
        elif first == ",":
            last = path[-1]
            is_key = isinstance(last, str)
            if isinstance(last, int):
                path[-1] = last + 1
        elif first == ":":
            is_key = False
            path[-1] = key or ""
        elif first == '"' and is_key:
            key = json.loads(token.group())
        elif first == '"':
            yield tuple(path), token.start() + 1, token.end() - 1


@dataclass(frozen=True)
class JsonStrings:
    """Text that is written as one JSON string, or as a list of them.

    Attributes
    ----------
    file : str
        The text of the file.
    spans : sequence of (int, int)
        The span of each string in the file, without its quotes.
    is_list : bool
        Whether each line is a string in a list.
    """

    file: str
    spans: Sequence[tuple[int, int]]
    is_list: bool

    @cached_property
    def text(self) -> str:
        """The values of the strings, concatenated."""
        return "".join(json.loads(f'"{self.file[a:b]}"', strict=False) for a, b in self.spans)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file for a span of `text`."""
        at = self._place(start, ends=False)
        return at, at if start == stop else self._place(stop, ends=True)

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` escaped for JSON; if the text is a list, as one string per line."""
        lines = replacement.splitlines(keepends=True) if self.is_list else [replacement]
        if self.is_list and replacement.endswith("\n") and not self._ends_string(start, stop):
            lines.append("")
        spelt = [json.dumps(line, ensure_ascii=self.file.isascii())[1:-1] for line in lines]
        return f'"{self._between}"'.join(spelt)

    @cached_property
    def _starts(self) -> list[int]:
        """Where each string begins in `text`, followed by the length of `text`."""
        starts = [0]
        for start, stop in self.spans:
            value = json.loads(f'"{self.file[start:stop]}"', strict=False)
            starts.append(starts[-1] + len(value))
        return starts

    def _place(self, offset: int, ends: bool) -> int:
        """Return the position of `offset` in the file.

        Between two strings, this is the end of the first if `ends`, else the start of the second.
        """
        search = bisect.bisect_left if ends else bisect.bisect_right
        number = min(max(search(self._starts, offset) - 1, 0), len(self.spans) - 1)
        at, until = self.spans[number]
        if "\\" not in self.file[at:until]:
            return at + offset - self._starts[number]
        if number not in self._offsets:
            found = _CHARACTER.finditer(self.file, at, until)
            self._offsets[number] = [*(character.start() for character in found), until]
        return self._offsets[number][offset - self._starts[number]]

    @cached_property
    def _offsets(self) -> dict[int, list[int]]:
        """The file positions of each string's characters, if it has escapes; filled by `_place`."""
        return {}

    def _ends_string(self, start: int, stop: int) -> bool:
        """Whether the span ends where a string in the list ends."""
        return start != stop and stop in self._starts

    @cached_property
    def _between(self) -> str:
        """The text between two strings in the list."""
        if len(self.spans) > 1:
            return self.file[self.spans[0][1] + 1 : self.spans[1][0] - 1]
        first = self.spans[0][0] - 1
        opening = self.file.rfind("[", 0, first)
        return f",{self.file[opening + 1 : first] or ' '}"


SOURCES = (NotebookSource(), PageSource())
