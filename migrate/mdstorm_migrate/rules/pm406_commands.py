"""PM406: install commands in Dockerfiles, shell scripts and makefiles."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import rewrite_commands
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.petastorm.names import OLD_ROOT, SCRIPTS, missing, renamed

CODE = "PM406"
TITLE = "Commands install mdstorm, and run its modules"
CLASS: Class = "exact"
KIND = ("docker", "shell")

#: A module that Python runs, ``python -m petastorm.tools.copy_dataset``, or a script that runs one.
_RUN = re.compile(
    rf"""\bpython[\d.]*(?:[ \t]+-\w)*[ \t]+-m[ \t]+(?P<path>{OLD_ROOT}(?:\.\w+)+)
    | (?:^|[;&|(!]|\b(?:RUN|do|then|else|sudo|time|exec)(?=[ \t]))[ \t]*
      (?P<script>{"|".join(map(re.escape, SCRIPTS))})(?![\w.-])""",
    re.MULTILINE | re.VERBOSE,
)


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of the commands."""
    yield from rewrite_commands(document, CODE)
    for found in _RUN.finditer(document.text):
        span = found.span("path" if found["path"] else "script")
        path = found["path"] or SCRIPTS[found["script"]]
        if is_commented_out(document.text, span[0]) or missing(path) or document.needs.importers:
            continue  # it is listed with the lines that name Petastorm still
        new = renamed(path) if found["path"] else f"python3 -m {renamed(path)}"
        yield Edit(CODE, "exact", *span, new, "run mdstorm's module")
