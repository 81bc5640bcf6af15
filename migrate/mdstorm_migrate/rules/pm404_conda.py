"""PM404: conda environment files and recipes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging import rewriting
from mdstorm_migrate.packaging.list_formats import Listed, listed
from mdstorm_migrate.packaging.lists import rewrite_listed
from mdstorm_migrate.packaging.requirement import Requirement, name_at, requirements_at
from mdstorm_migrate.rules.rule import rule

CODE = "PM404"

#: Entries under ``- pip:`` that are mdstorm or become mdstorm.
_PIP_ENTRY = re.compile(r"""["']?(?:petastorm|mdstorm)\b""", re.IGNORECASE)
#: The packages that conda installs: a top-level list in an environment file.
_DEPENDENCIES = re.compile(
    r"^dependencies:[^\n]*\n(?:(?:[ \t\r#-][^\n]*)?(?:\n|\Z))*", re.MULTILINE
)


@rule(CODE, "Conda environments install mdstorm by pip", "exact", "conda")
def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to pip's packages, and edits that move conda's packages to pip."""
    text, needs = document.text, document.needs
    items = list(listed(document))
    remedy = "list mdstorm below `- pip:`, and remove petastorm here once no code imports it"
    dependencies = _DEPENDENCIES.search(text)
    within = range(*dependencies.span()) if dependencies else range(0)
    if _is_recipe(document):
        within = range(len(text))
        remedy = "remove petastorm here: a recipe cannot require what only pip has"
    yield from rewrite_listed(document, CODE)
    for item in items:
        for requirement in () if item.place else requirements_at(text, item.start, item.stop):
            if needs.importers and not needs.moved:
                yield Finding(CODE, "note", item.start, item.stop, needs.why_petastorm_stays)
            elif needs.is_unused or item.start not in within:
                continue
            elif needs.importers or requirement.is_copy or _is_recipe(document):
                yield rewriting.manual(requirement, CODE, rewriting.CONDA, remedy)
            else:
                yield from _move_to_pip(document, item, requirement.extras, items)


def _move_to_pip(
    document: Document, item: Listed, extras: Iterable[str], items: Iterable[Listed]
) -> Iterator[Edit]:
    """Yield the edits that replace an item installed by conda with mdstorm from pip."""
    text, needs = document.text, document.needs
    index = [f"--extra-index-url {needs.index}"] if needs.index else []
    transitive = rewriting.brought_in_by(needs.transitive, extras)
    required = [*index, rewriting.requirement_of(document, extras), *transitive]
    of_pip = [Requirement(one.start, one.stop) for one in items if one.place]
    if not of_pip:
        indent = text[document.lines.start_of(item.start) : item.start].partition("-")[0]
        is_there = any(name_at(text, one.start, one.stop) == "pip" for one in items)
        lines = [*(() if is_there else ("pip",)), "pip:"]
        new = f"{document.lines.newline}{indent}- ".join(lines)
        new += "".join(
            f"{document.lines.newline}{indent}  - {rewriting.yaml_item(one)}" for one in required
        )
        yield Edit(CODE, "exact", item.start, item.stop, new, rewriting.MESSAGE, topic="install")
        return
    if not any(_PIP_ENTRY.match(text, one.start, one.stop) for one in of_pip):
        edit = rewriting.list_after(document, of_pip[0], CODE, "item", required, rewriting.MESSAGE)
        yield from [edit] if edit else []
    at, end = rewriting.removal(document, Requirement(item.start, item.stop))
    yield Edit(CODE, "exact", at, end, "", "pip installs mdstorm instead", topic="install")


def _is_recipe(document: Document) -> bool:
    return document.path is not None and document.path.name.startswith("meta.")
