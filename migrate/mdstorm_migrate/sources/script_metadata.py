"""What a script says of itself in comments: its Python and its dependencies, by PEP 723."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.sources.commented import uncommented_lines

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
