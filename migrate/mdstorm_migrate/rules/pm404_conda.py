"""PM404: conda environment files and recipes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging import rewriting
from mdstorm_migrate.packaging.requirement import Requirement, find_addresses, find_requirements
from mdstorm_migrate.rules.rule import rule

CODE = "PM404"

_ITEM = re.compile(r"""^(?P<indent>[ \t]*)-[ \t]+(?P<value>[^#\r\n]*)""", re.MULTILINE)
_REQUIREMENT = re.compile(r"""["']?([\w/-]+::)?petastorm\b""", re.IGNORECASE)
#: Entries under ``- pip:`` that are mdstorm or become mdstorm.
_PIP_ENTRY = re.compile(r"""["']?(?:petastorm|mdstorm)\b""", re.IGNORECASE)
_PIP = re.compile(r"pip[ \t]*:[ \t]*")
_PIP_ITSELF = re.compile(r"pip\b")
#: The packages that conda installs: a top-level list in an environment file.
_DEPENDENCIES = re.compile(
    r"^dependencies:[^\n]*\n(?:(?:[ \t\r#-][^\n]*)?(?:\n|\Z))*", re.MULTILINE
)
#: Keys that only recipes have.
_RECIPE = tuple(re.compile(rf"^{key}:", re.MULTILINE) for key in ("package", "requirements"))


@rule(CODE, "Conda environments install mdstorm by pip", "exact", "conda")
def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to pip's packages, and edits that move conda's packages to pip."""
    text, needs = document.text, document.needs
    items = list(_items(text))
    remedy = "list mdstorm below `- pip:`, and remove petastorm here once no code imports it"
    listed = _DEPENDENCIES.search(text)
    within = range(*listed.span()) if listed else range(0)
    if _is_recipe(document):
        items = [(start, stop, False) for start, stop, _ in items]
        within = range(len(text))
        remedy = "remove petastorm here: a recipe cannot require what only pip has"
    for start, stop, of_pip in items:
        if not _REQUIREMENT.match(text, start, stop):
            continue
        for found in find_requirements(text, start, stop):
            if of_pip:
                yield from rewriting.rewrite_requirement(document, found, CODE, "item")
            elif needs.importers and not needs.moved:
                yield Finding(CODE, "note", start, stop, needs.why_petastorm_stays)
            elif needs.is_unused or start not in within:
                continue
            elif needs.importers or found.is_copy or _is_recipe(document):
                yield rewriting.manual(found, CODE, rewriting.CONDA, remedy)
            else:
                yield from _move_to_pip(document, Requirement(start, stop, found.extras), items)
    for found in find_addresses(text):
        yield from rewriting.rewrite_requirement(document, found, CODE, "item")


def _move_to_pip(
    document: Document, item: Requirement, items: Iterable[tuple[int, int, bool]]
) -> Iterator[Edit]:
    """Yield the edits that replace an item installed by conda with mdstorm from pip."""
    text, needs = document.text, document.needs
    index = [f"--extra-index-url {needs.index}"] if needs.index else []
    transitive = rewriting.brought_in_by(needs.transitive, item.extras)
    required = [*index, rewriting.requirement_of(document, item.extras), *transitive]
    listed = [Requirement(start, stop) for start, stop, of_pip in items if of_pip]
    if not listed:
        indent = text[document.lines.start_of(item.start) : item.start].partition("-")[0]
        is_there = any(_PIP_ITSELF.match(text, start, stop) for start, stop, _ in items)
        lines = [*(() if is_there else ("pip",)), "pip:"]
        new = f"{document.lines.newline}{indent}- ".join(lines)
        new += "".join(
            f"{document.lines.newline}{indent}  - {rewriting.yaml_item(one)}" for one in required
        )
        yield Edit(CODE, "exact", item.start, item.stop, new, rewriting.MESSAGE, topic="install")
        return
    if not any(_PIP_ENTRY.match(text, one.start, one.stop) for one in listed):
        edit = rewriting.list_after(document, listed[0], CODE, "item", required, rewriting.MESSAGE)
        yield from [edit] if edit else []
    at, end = rewriting.removal(document, item)
    yield Edit(CODE, "exact", at, end, "", "pip installs mdstorm instead", topic="install")


def _items(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the spans of list items, and whether pip installs them."""
    pip_indent: int | None = None
    for item in _ITEM.finditer(text):
        indent = len(item["indent"].expandtabs())
        if pip_indent is not None and indent <= pip_indent:
            pip_indent = None
        if _PIP.fullmatch(item["value"]):
            pip_indent = indent
        else:
            start = item.start("value")
            yield start, start + len(item["value"].rstrip()), pip_indent is not None


def _is_recipe(document: Document) -> bool:
    is_meta = document.path is not None and document.path.name.startswith("meta.")
    return is_meta or all(key.search(document.text) for key in _RECIPE)
