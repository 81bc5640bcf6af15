"""PM406: install commands in Dockerfiles, shell scripts and makefiles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import rewrite_commands
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, missing

CODE = "PM406"
TITLE = "Commands install mdstorm, and run its modules"
CLASS: Class = "exact"
KIND = ("docker", "shell")

#: A module that Python runs: ``python -m petastorm.tools.copy_dataset``.
_RUN = re.compile(rf"\bpython[\d.]*(?:[ \t]+-\w)*[ \t]+-m[ \t]+(?P<path>{OLD_ROOT}(?:\.\w+)+)")


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of the commands."""
    yield from rewrite_commands(document, CODE)
    for found in _RUN.finditer(document.text):
        start, path = found.start("path"), found["path"]
        if is_commented_out(document.text, start) or missing(path) or document.needs.importers:
            continue  # it is listed with the lines that name Petastorm still
        yield Edit(CODE, "exact", start, start + len(OLD_ROOT), NEW_ROOT, "run mdstorm's module")
