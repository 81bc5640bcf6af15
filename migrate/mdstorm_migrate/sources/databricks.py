"""Databricks notebooks in source form: cells between ``# COMMAND ----------``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from mdstorm_migrate.base.document import (
    DATABRICKS_HEADER,
    DecodedFile,
    Document,
    Segment,
    Shift,
)
from mdstorm_migrate.sources.cells import whole_or_cells
from mdstorm_migrate.sources.decoding import decode_python
from mdstorm_migrate.sources.python import Uncommented

_COMMAND = re.compile(r"^# COMMAND -+[ \t]*\r?\n?", re.MULTILINE)
_PREFIX = "# MAGIC "
_MAGIC_LINE = re.compile(r"^# MAGIC ?(?P<text>[^\r\n]*(?:\r?\n)?)", re.MULTILINE)
#: The first line of a cell in Python, which may hold code.
_PYTHON = re.compile(r"[ \t]*%python\b[ \t]*(?P<code>.*)", re.DOTALL)


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
            documents += _documents(cell, path)
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
    first = _PYTHON.match(cell[0]["text"])
    if first is None:
        return
    if first["code"].strip():
        yield cell[0].start(), cell[0].start("text") + first.start("code")
    yield from ((line.start(), line.start("text")) for line in cell[1:])


def _documents(cell: list[re.Match[str]], path: PurePath | None) -> Iterator[Document]:
    """Yield the documents of a cell, but for Python."""
    lines = [Segment(line["text"], Shift(line.start("text"))) for line in cell]
    first = lines[0].text.strip()
    if re.match(r"%(sh|bash)\b", first):
        yield Document("shell", lines, path)
    elif re.match(r"%(md|md-sandbox|python|sql|scala|r|fs)\b", first):
        if _PYTHON.match(lines[0].text) is None:
            yield Document("other", lines, path)
    else:
        yield Document("magic", lines, path)


SOURCE = DatabricksSource()
