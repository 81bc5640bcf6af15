"""PM407: ``%pip install`` and ``!pip install`` in notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.installing import rewrite_commands
from mdstorm_migrate.packaging.runs import rewrite_runs
from mdstorm_migrate.petastorm.names import OLD_ROOT, missing

CODE = "PM407"
TITLE = "Magics of notebooks install mdstorm"
CLASS: Class = "exact"
KIND = "magic"

#: Modules that IPython imports, to load them again where they change.
_AIMPORT = re.compile(r"%aimport[ \t]+(?:[-\w.]+[ \t]*,[ \t]*)*-?(?P<name>petastorm)\b(?!-)")
#: Magics that are given code or a name of Python's, as ``%lprun -f petastorm.…`` and ``…?``.
_TAKES_NAMES = re.compile(
    r"\s*(?:%(?:lprun|memit|mprun|p(?:info2?|source|doc|file|def|run)|scalene|snakeviz|time(?:it)?)\b"
    r"|[^!%\n]*\?\s*\Z)"
)
_NAME = re.compile(rf"(?<![\w./'\"-]){OLD_ROOT}(?:\.[^\W\d]\w*)+")


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of one magic."""
    yield from rewrite_commands(document, CODE)
    for found in _AIMPORT.finditer(document.text):
        what = "this magic imports Petastorm"
        yield Finding(CODE, "manual", *found.span("name"), what, f"{what}: name mdstorm in it")
    for named in _NAME.finditer(document.text) if _TAKES_NAMES.match(document.text) else ():
        if lacking := missing(named[0]):
            what = f"this magic names `{lacking}`, which is not in mdstorm"
            yield Finding(CODE, "manual", *named.span(), what, f"{what}: change it by hand")
    yield from rewrite_runs(document, CODE)
