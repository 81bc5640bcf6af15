"""PM407: ``%pip install`` and ``!pip install`` in notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.installing import rewrite_commands
from mdstorm_migrate.packaging.runs import rewrite_runs

CODE = "PM407"
TITLE = "Magics of notebooks install mdstorm"
CLASS: Class = "exact"
KIND = "magic"

#: Modules that IPython imports, to load them again where they change.
_AIMPORT = re.compile(r"%aimport[ \t]+(?:[-\w.]+[ \t]*,[ \t]*)*-?(?P<name>petastorm)\b(?!-)")


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of one magic."""
    yield from rewrite_commands(document, CODE)
    for found in _AIMPORT.finditer(document.text):
        what = "this magic imports Petastorm"
        yield Finding(CODE, "manual", *found.span("name"), what, f"{what}: name mdstorm in it")
    yield from rewrite_runs(document, CODE)
