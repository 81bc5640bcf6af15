"""Python modules and scripts, those with cells between ``# %%`` among them."""

from __future__ import annotations

import re
from pathlib import PurePath

from mdstorm_migrate.base.document import DATABRICKS_HEADER, DecodedFile, Document, Segment
from mdstorm_migrate.sources.cells import whole_or_cells
from mdstorm_migrate.sources.commented import commented_documents, script_metadata
from mdstorm_migrate.sources.decoding import decode_python

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


SOURCE = PythonSource()
