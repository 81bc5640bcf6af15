"""PM406 and PM407: install commands in Dockerfiles, scripts and makefiles, and in notebooks."""

from __future__ import annotations

from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.commands import rewrite_commands
from mdstorm_migrate.rules.rule import rule


@rule("PM406", "Commands install mdstorm, and run its modules", "exact", "docker", "shell")
def commands(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to the commands in a document."""
    yield from rewrite_commands(document, "PM406")


@rule("PM407", "Notebook magics install mdstorm", "exact", "magic")
def magics(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to one magic."""
    yield from rewrite_commands(document, "PM407")
