"""Markdown pages that are notebooks for Jupytext, MyST, Quarto or R Markdown."""

from __future__ import annotations

import re
from pathlib import PurePath

from mdstorm_migrate.base.document import DecodedFile, Document, DocumentKind, Shift, TextSegment
from mdstorm_migrate.sources.cells import Cell, documents_of
from mdstorm_migrate.sources.decoding import decode
from mdstorm_migrate.sources.plain import is_notebook

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


SOURCES = (PageSource(),)
