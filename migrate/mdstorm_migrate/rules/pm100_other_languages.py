"""PM100: cells in other languages that mention Petastorm."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Finding

CODE = "PM100"
TITLE = "Not Python: skipped"
CLASS: Class = "note"
KIND = "other"


def check(document: Document) -> Iterable[Finding]:
    """Yield a note where a cell in another language mentions Petastorm."""
    match = re.search("petastorm", document.text, re.IGNORECASE)
    if match is not None:
        what = "this cell was skipped; it mentions Petastorm"
        yield Finding(CODE, CLASS, *match.span(), what)
