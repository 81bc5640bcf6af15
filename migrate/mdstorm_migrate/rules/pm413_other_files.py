"""PM413: files of kinds that nothing else reads: Terraform, Scala, templates, notes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import command_requirements, rewrite_runs
from mdstorm_migrate.packaging.installing import rewrite_commands
from mdstorm_migrate.packaging.requirement import (
    Requirement,
    find_requirements,
    is_requirement,
)
from mdstorm_migrate.packaging.rewriting import rewrite_requirement

CODE = "PM413"
TITLE = "Files of other kinds install Petastorm"
CLASS: Class = "manual"
KIND = "text"

#: The library of a cluster or a job, as Terraform has it.
_PACKAGE = re.compile(r"""\bpackage[ \t]*=[ \t]*(["'])(?P<value>[^"'\n]*)\1""")
#: A cell of Python in a notebook of Databricks in SQL, Scala or R.
_CELL = re.compile(
    r"^(?:--|//|#) MAGIC[ \t]+(?P<code>(?:from|import)[ \t]+petastorm\b[^\r\n]*)", re.MULTILINE
)
#: What stands on a line that installs or requires something.
_NEAR = re.compile(
    r"==|\bpip\d?\b|coordinates|pypi|install|require|depend|librar|package", re.IGNORECASE
)


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits of what is plain, and a finding for each other line that requires Petastorm."""
    text = document.text
    seen = {found.start for _, found in command_requirements(text)}
    yield from rewrite_commands(document, CODE)
    yield from rewrite_runs(text, CODE, is_prose=True)
    for cell in _CELL.finditer(text):
        what = "this `%python` cell of a notebook in another language imports Petastorm"
        yield Finding(CODE, CLASS, *cell.span("code"), what, f"{what}: import mdstorm there")
    for package in _PACKAGE.finditer(text):
        if is_requirement(package["value"]):
            for found in find_requirements(text, *package.span("value")):
                seen.add(found.start)
                yield from rewrite_requirement(document, found, CODE, "alone")
    for found in find_requirements(text):
        if found.start not in seen and _is_required(document, found):
            yield Finding(
                CODE,
                "manual",
                found.start,
                found.stop,
                "this file is of a kind that is not migrated, and seems to require Petastorm",
                "require mdstorm here, without the version",
            )


def _is_required(document: Document, found: Requirement) -> bool:
    text = document.text
    start = document.lines.start_of(found.start)
    end = text.find("\n", found.stop)
    line = text[start : len(text) if end < 0 else end]
    above = text[max(start - 200, 0) : start]
    return _NEAR.search(line) is not None or re.search(r"pypi|coordinates", above) is not None
