"""PM407: ``%pip install`` and ``!pip install`` in notebooks."""

from __future__ import annotations

from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import rewrite_commands

CODE = "PM407"
TITLE = "Notebook magics install mdstorm"
CLASS: Class = "exact"
KIND = "magic"


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to one magic."""
    yield from rewrite_commands(document, CODE)
