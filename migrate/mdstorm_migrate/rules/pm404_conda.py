"""PM404: environment files and recipes of conda."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.flow_lists import flow_items
from mdstorm_migrate.packaging.left_installs import with_installs
from mdstorm_migrate.packaging.origins import other_origins
from mdstorm_migrate.packaging.places import Place
from mdstorm_migrate.packaging.requirement import find_requirements, of_conda
from mdstorm_migrate.packaging.rewriting import rewrite_requirement
from mdstorm_migrate.packaging.runs import rewrite_runs
from mdstorm_migrate.packaging.traces import report_traces, tested_imports

CODE = "PM404"
TITLE = "Conda environments install mdstorm by pip"
CLASS: Class = "exact"
KIND = "conda"

_ITEM = re.compile(r"""^(?P<indent>[ \t]*)-[ \t]+(?P<value>[^#\r\n]*)""", re.MULTILINE)
_REQUIREMENT = re.compile(r"""["']?([\w/-]+::)?petastorm\b""", re.IGNORECASE)
#: What is mdstorm, or becomes it, below ``- pip:``.
_BELOW = re.compile(r"""["']?(?:petastorm|mdstorm)\b""", re.IGNORECASE)
_PIP = re.compile(r"pip[ \t]*:[ \t]*")
#: A list of a key for pip that is no item itself, as in the ``runtime_env.yaml`` of Ray.
_KEY = re.compile(
    r"^(?P<indent>[ \t]*)(?:pip|uv)[ \t]*:[ \t]*(?:#[^\n]*)?\n"
    r"(?P<items>(?:(?P=indent)[ \t]*-[ \t][^\n]*(?:\n|\Z)|[ \t]*(?:#[^\n]*)?\n)+)",
    re.MULTILINE,
)
#: Keys that recipes have, and environments have not.
_RECIPE = tuple(re.compile(rf"^{key}:", re.MULTILINE) for key in ("package", "requirements"))
#: The name of a recipe of Petastorm, or the variable that has it.
_OF_ITSELF = re.compile(
    r"""^(?: package:[ \t]*\n(?:[ \t]+[^\n]*\n)*?[ \t]+name:[ \t]*
      | \{%[ \t]*set[ \t]+name[ \t]*=[ \t]* )
    ["']?(?P<name>petastorm)["']?[ \t]*(?:%\}[ \t]*)?(?:\#.*)?$""",
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)


@with_installs
def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits below ``pip:``; what conda itself would install has to move there."""
    text = document.text
    if _is_recipe(document) and (name := _OF_ITSELF.search(text)):
        what = "this is a recipe of Petastorm itself, which nothing needs once the code is migrated"
        yield Finding(CODE, "note", *name.span("name"), what)
        return
    items = list(_items(document))
    remedy = "take petastorm out here, and add mdstorm to the list below `- pip:`"
    if _is_recipe(document):
        remedy = "take petastorm out here: a recipe cannot require what only pip has"
    elif any(place and _BELOW.match(text, start, stop) for start, stop, place in items):
        remedy = "take petastorm out here, which leaves mdstorm to the list below `- pip:`"
    for start, stop, place in items:
        yield from _of_item(document, start, stop, place, remedy)
    yield from other_origins(text, CODE, has_links=True)
    if _is_recipe(document):
        yield from report_traces(document, CODE)
        yield from rewrite_runs(document, CODE)  # of its tests


def _items(document: Document) -> Iterator[tuple[int, int, Place | None]]:
    """Yield the spans of the items of lists; with a place, those that pip installs."""
    text = document.text
    pip_indent: int | None = None
    imports = [found.span() for found in tested_imports(text)] if _is_recipe(document) else []
    of_pip = [found.span("items") for found in _KEY.finditer(text)]
    for item in _ITEM.finditer(text):
        if any(start <= item.start() < stop for start, stop in imports):
            continue  # of its tests
        indent = len(item["indent"].expandtabs())
        if pip_indent is not None and indent <= pip_indent:
            pip_indent = None
        if _PIP.fullmatch(item["value"]):
            pip_indent = indent
            continue
        is_of_pip = any(start <= item.start() < stop for start, stop in of_pip)
        place: Place | None = "item" if is_of_pip or pip_indent is not None else None
        yield *item.span("value"), place
    for one in flow_items(text):
        if not is_commented_out(text, one.start):
            place = None if one.key != "pip" else "string" if one.is_quoted else "alone"
            yield one.start, one.stop, place


def _is_recipe(document: Document) -> bool:
    is_meta = document.path is not None and document.path.name.startswith("meta.")
    return is_meta or all(key.search(document.text) for key in _RECIPE)


def _of_item(
    document: Document, start: int, stop: int, place: Place | None, remedy: str
) -> Iterator[Edit | Finding]:
    """Yield what becomes of an item that pip installs, at a place of its kind, or conda itself."""
    if not _REQUIREMENT.match(document.text[start:stop]):
        return
    for found in find_requirements(document.text, start, stop):
        if place is not None:
            yield from rewrite_requirement(document, found, CODE, place)
        elif document.needs.importers and not document.needs.moved:
            yield Finding(CODE, "note", start, stop, document.needs.why_petastorm_stays)
        else:
            yield of_conda(found, CODE, remedy)
