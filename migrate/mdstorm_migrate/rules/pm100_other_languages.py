"""PM100: cells in other languages that mention Petastorm."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Finding

CODE = "PM100"
TITLE = "Not Python: skipped"
CLASS: Class = "note"
KIND = ("other", "unparsed")

#: What uses it in a cell of Python, not in a comment or a string.
_CODE = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+petastorm\b|^[^#\"'\n]*\bpetastorm\.\w", re.MULTILINE
)


def check(document: Document) -> Iterable[Finding]:
    """Yield a note where a cell in another language, or in none, may use Petastorm."""
    if document.kind == "unparsed":
        what = "this cell is not Python: it was skipped, and its use of Petastorm was not checked"
        yield Finding(CODE, CLASS, 0, 0, what)
        return
    if document.text.lstrip().startswith("%python"):
        used = _CODE.search(document.text)
        if used is not None:
            what = "this `%python` cell uses Petastorm, and shares its names with the other cells"
            remedy = f"{what}: take the magic off, then migrate the notebook again"
            yield Finding(CODE, "manual", *used.span(), what, remedy, blocks=True)
            return
    mention = re.search("petastorm", document.text, re.IGNORECASE)
    if mention is not None:
        what = "this cell was skipped; it mentions Petastorm"
        yield Finding(CODE, CLASS, *mention.span(), what)
