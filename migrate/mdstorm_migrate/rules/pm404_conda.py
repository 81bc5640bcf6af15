"""PM404: environment files and recipes of conda."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.requirement import find_requirements
from mdstorm_migrate.packaging.rewriting import of_conda, report_addresses, rewrite_requirement

CODE = "PM404"
TITLE = "Conda environments install mdstorm by pip"
CLASS: Class = "exact"
KIND = "conda"

_ITEM = re.compile(r"""^(?P<indent>[ \t]*)-[ \t]+(?P<value>[^#\r\n]*)""", re.MULTILINE)
_REQUIREMENT = re.compile(r"""["']?([\w/-]+::)?petastorm\b""", re.IGNORECASE)
#: What is mdstorm, or becomes it, below ``- pip:``.
_BELOW = re.compile(r"""["']?(?:petastorm|mdstorm)\b""", re.IGNORECASE)
_PIP = re.compile(r"pip[ \t]*:[ \t]*")
#: Keys that recipes have, and environments have not.
_RECIPE = tuple(re.compile(rf"^{key}:", re.MULTILINE) for key in ("package", "requirements"))


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits below ``pip:``; what conda itself would install has to move there."""
    text = document.text
    items = list(_items(text))
    remedy = (
        "add mdstorm to a list below `- pip:`, and remove petastorm here once no code imports it"
    )
    if _is_recipe(document):
        items = [(start, stop, False) for start, stop, _ in items]
        remedy = "remove petastorm here: a recipe cannot require what only pip has"
    elif any(of_pip and _BELOW.match(text, start, stop) for start, stop, of_pip in items):
        remedy = "remove petastorm here, which leaves mdstorm to the list below `- pip:`"
    for start, stop, of_pip in items:
        if not _REQUIREMENT.match(text, start, stop):
            continue
        for found in find_requirements(text, start, stop):
            if of_pip:
                yield from rewrite_requirement(document, found, CODE, "item")
            elif document.needs.importers and not document.needs.moved:
                yield Finding(CODE, "note", start, stop, document.needs.why_petastorm_stays)
            elif not document.needs.is_unused:
                yield of_conda(found, CODE, remedy)
    yield from report_addresses(document, CODE)


def _items(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the spans of the items of lists, and whether pip installs them."""
    pip_indent: int | None = None
    for item in _ITEM.finditer(text):
        indent = len(item["indent"].expandtabs())
        if pip_indent is not None and indent <= pip_indent:
            pip_indent = None
        if _PIP.fullmatch(item["value"]):
            pip_indent = indent
        else:
            yield *item.span("value"), pip_indent is not None


def _is_recipe(document: Document) -> bool:
    is_meta = document.path is not None and document.path.name.startswith("meta.")
    return is_meta or all(key.search(document.text) for key in _RECIPE)
