"""PM100: cells in other languages that mention Petastorm."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.petastorm.names import renamed
from mdstorm_migrate.rules.pm116_doctests import is_offered

CODE = "PM100"
TITLE = "Not Python: skipped"
CLASS: Class = "note"
KIND = ("other", "unparsed")

#: What uses it in a cell of Python, not in a comment or a string.
_CODE = re.compile(
    r"^[ \t]*(?:from|import)[ \t]+petastorm\b|^[^#\"'\n]*\bpetastorm\.\w", re.MULTILINE
)

_IMPORT = re.compile(
    r"[ \t]*(?P<statement>from[ \t]+(?P<module>petastorm[\w.]*)[ \t]+import[ \t]+[^\r\n#(\\]*)"
)


def check(document: Document) -> Iterable[Edit | Finding]:
    """Yield a note where a cell in another language, or in none, may use Petastorm."""
    if document.kind == "unparsed":
        what = "this cell is not Python: it was skipped, and its use of Petastorm was not checked"
        yield Finding(CODE, CLASS, 0, 0, what)
        return
    if document.text.lstrip().startswith("%python") and _CODE.search(document.text):
        yield from _of_python_cell(document)
        return
    mention = re.search("petastorm", document.text, re.IGNORECASE)
    if mention is not None:
        what = "this cell was skipped; it mentions Petastorm"
        yield Finding(CODE, CLASS, *mention.span(), what)


def _of_python_cell(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of imports, if the cell does nothing else that names Petastorm."""
    text = document.text
    found = [_IMPORT.match(text, used.start()) for used in _CODE.finditer(text)]
    imports = [one for one in found if one and is_offered(one["statement"], one["module"])]
    if len(imports) == len(found):
        for one in imports:
            new = renamed(one["module"])
            message = f"this cell imports from `{new}`"
            yield Edit(CODE, "exact", *one.span("module"), new, message)
        return
    used = next(_CODE.finditer(text))
    what = "this `%python` cell uses Petastorm, and shares its names with the other cells"
    remedy = f"{what}: take the magic off, then migrate the notebook again"
    yield Finding(CODE, "manual", *used.span(), what, remedy, blocks=True)
