"""PM402: ``Pipfile``, and ``pyproject.toml`` with the tables of PEP 621, Poetry and others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging import toml
from mdstorm_migrate.packaging.commands import rewrite_commands
from mdstorm_migrate.packaging.requirement import Requirement, requirements_at
from mdstorm_migrate.packaging.rewriting import CONDA, RequirementPlace, manual, rewrite_lists
from mdstorm_migrate.packaging.toml_dependencies import rewrite_dependency, rewrite_extras
from mdstorm_migrate.rules.rule import rule

CODE = "PM402"

#: A source that uv uses for the dependency: a repository or a folder.
_SOURCE = re.compile(r"^(?:petastorm[ \t]*=|\[tool\.uv\.sources\.petastorm\])", re.MULTILINE)


@rule(CODE, "pyproject.toml and Pipfile name mdstorm", "exact", "pyproject", "pipfile")
def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to a project file, and findings."""
    text = document.text
    has_source = "[tool.uv.sources" in text and _SOURCE.search(text) is not None
    places: list[tuple[Document, Requirement, RequirementPlace]] = [
        (
            _constraining(document, string.key),
            replace(requirement, is_copy=requirement.is_copy or has_source),
            "string",
        )
        for string in toml.requirement_strings(text)
        for requirement in requirements_at(text, string.start, string.stop)
    ]
    yield from rewrite_lists(places, CODE)
    keys = [key for key in toml.dependency_keys(text) if key.name.lower() == "petastorm"]
    results = [
        one
        for key in keys
        for one in rewrite_dependency(_constraining(document, key.table), key, CODE)
    ]
    yield from results
    if any(isinstance(one, Edit) for one in results):
        yield from rewrite_extras(document, CODE)
    for key in toml.conda_keys(document):
        if key.name.lower() == "petastorm" and document.needs.moved:
            requirement = Requirement(key.start, key.stop)
            yield manual(requirement, CODE, CONDA, "list mdstorm in pypi-dependencies instead")
    yield from rewrite_commands(document, CODE)  # in scripts of environments and task runners


def _constraining(document: Document, name: str) -> Document:
    """Return the document as it is for what a key or a table lists, with what is needed there.

    A constraint or an override installs nothing, so nothing is added.
    """
    if not toml.is_constraint(name):
        return document
    is_override = toml.is_override(name)
    needs = replace(
        document.needs, is_constraint=True, is_override=is_override, transitive=(), moved=False
    )
    return replace(document, needs=needs)
