"""PM401: requirements files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.lists import is_generated
from mdstorm_migrate.packaging.requirement import find_addresses, find_requirements
from mdstorm_migrate.packaging.rewriting import rewrite_requirement
from mdstorm_migrate.rules.rule import rule

CODE = "PM401"

#: A line with its continuation lines, up to its comment.
_LINE = re.compile(r"^[ \t]*(?P<body>(?:[^#\\\r\n]+|\\\r?\n|\\.|(?<=\S)\#)*)", re.MULTILINE)
#: Text that follows a requirement but not a word in prose: a marker, options, a conda version.
_REST = re.compile(r"[\s\\]*(?:[;=]|--|\Z)")
_EDITABLE = re.compile(r"-e\b|--editable\b")


@rule(CODE, "Requirements files name mdstorm", "exact", "requirements")
def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to a requirements file, and findings."""
    text = document.text
    if is_generated(text) or document.needs.is_record:  # PM411 and PM001 report these
        return
    for line in _LINE.finditer(text):
        span = line.span("body")
        is_option = line["body"].startswith("-")
        for found in () if is_option else find_requirements(text, *span):
            if found.start == span[0] and _REST.match(text, found.stop, span[1]):
                yield from rewrite_requirement(document, found, CODE, "line")
        if not is_option or _EDITABLE.match(line["body"]):
            for found in find_addresses(text, *span):
                yield from rewrite_requirement(document, found, CODE, "line")
