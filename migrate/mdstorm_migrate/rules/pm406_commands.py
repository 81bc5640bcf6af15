"""PM406: install commands in Dockerfiles, shell scripts and makefiles."""

from __future__ import annotations

from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import rewrite_commands

CODE = "PM406"
TITLE = "Commands install mdstorm, and run its modules"
CLASS: Class = "exact"
KIND = ("docker", "shell")


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to the commands in a document."""
    yield from rewrite_commands(document, CODE)
