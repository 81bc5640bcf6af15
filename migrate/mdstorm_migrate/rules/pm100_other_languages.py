"""PM100: cells in other languages that mention Petastorm."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.petastorm.names import OLD_ROOT, REST_OF_KEY
from mdstorm_migrate.rules.rule import rule

CODE = "PM100"

_MENTION = re.compile(rf"{OLD_ROOT}(?!{REST_OF_KEY})", re.IGNORECASE)


@rule(CODE, "Cells in other languages are skipped", "note", "other", "markdown")
def check(document: Document) -> Iterable[Finding]:
    """Yield a note if a cell in another language may use Petastorm."""
    if document.kind == "markdown" and not document.is_in_jupyter:
        return
    mention = _MENTION.search(document.text)
    if mention is not None:
        what = "this cell was skipped; it mentions Petastorm"
        yield Finding(CODE, "note", *mention.span(), what)
