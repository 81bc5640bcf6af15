"""PM100: cells in other languages that mention Petastorm."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.names import KEY_IN_CELLS

CODE = "PM100"
TITLE = "Not Python: skipped"
CLASS: Class = "note"
KIND = ("other", "markdown")


def is_in_notebook(document: Document) -> bool:
    """Whether a document is a cell of a Jupyter notebook."""
    return document.path is not None and document.path.suffix == ".ipynb"


def check(document: Document) -> Iterable[Finding]:
    """Yield a note where a cell in another language may use Petastorm."""
    if document.kind == "markdown" and not is_in_notebook(document):
        return
    if set_key := KEY_IN_CELLS.search(document.text):
        what = "this cell was skipped; it names Petastorm's key, which mdstorm reads after its own"
        yield Finding(CODE, CLASS, *set_key.span("key"), what)
        return
    mention = re.search("petastorm", document.text, re.IGNORECASE)
    if mention is not None:
        what = "this cell was skipped; it mentions Petastorm"
        yield Finding(CODE, CLASS, *mention.span(), what)
