"""PM405: ``Pipfile``."""

from __future__ import annotations

from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import rewrite_commands
from mdstorm_migrate.packaging.pyproject import rewrite_dependency
from mdstorm_migrate.packaging.toml_text import toml_keys

CODE = "PM405"
TITLE = "Pipfile names mdstorm"
CLASS: Class = "exact"
KIND = "pipfile"

_NO_PACKAGES = frozenset({"", "source", "requires", "scripts", "pipenv"})


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of a Pipfile."""
    for key in toml_keys(document.text):
        if key.table not in _NO_PACKAGES and key.name.lower() == "petastorm":
            yield from rewrite_dependency(document, key, CODE)
    yield from rewrite_commands(document, CODE)
