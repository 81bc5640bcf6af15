"""Databricks notebooks in source form: cells between ``# COMMAND ----------``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from mdstorm_migrate.base.document import DecodedFile, Document, Segment, Shift
from mdstorm_migrate.sources.cells import whole_or_cells
from mdstorm_migrate.sources.decoding import decode_python
from mdstorm_migrate.sources.python import DATABRICKS_HEADER

_COMMAND = re.compile(r"^# COMMAND -+[ \t]*\r?\n?", re.MULTILINE)
_MAGIC_LINE = re.compile(r"^# MAGIC ?(?P<text>[^\r\n]*(?:\r?\n)?)", re.MULTILINE)


class DatabricksSource:
    """A notebook as a Python file: magics stand in comments that begin with ``# MAGIC``."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether the first line says so."""
        return path.suffix == ".py" and head.startswith(DATABRICKS_HEADER)

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return it as one Python document; cell by cell if it is not Python as a whole."""
        text, mark, encoding = decode_python(data)
        documents, broken, unparsed = whole_or_cells(text, path, _COMMAND)
        documents += _magics(text, path)
        return DecodedFile(text, documents, encoding, mark, broken, unparsed)


def _magics(text: str, path: PurePath | None) -> Iterator[Document]:
    """Yield a document for each line magic in comments, and for each shell cell."""
    lines: list[Segment] = []
    end = -1
    for match in _MAGIC_LINE.finditer(text):
        if match.start() != end:
            yield from _magic_cell(lines, path)
            lines = []
        lines.append(Segment(match["text"], Shift(match.start("text"))))
        end = match.end()
    yield from _magic_cell(lines, path)


def _magic_cell(lines: list[Segment], path: PurePath | None) -> Iterator[Document]:
    """Yield the documents of neighbouring magic lines: they are one cell."""
    first = lines[0].text.strip() if lines else ""
    if re.match(r"%(sh|bash)\b", first):
        yield Document("shell", lines, path)
    elif re.match(r"%(md|md-sandbox|python|sql|scala|r|fs)\b", first):
        yield Document("other", lines, path)
    else:
        yield from (Document("magic", [line], path) for line in lines)


SOURCE = DatabricksSource()
