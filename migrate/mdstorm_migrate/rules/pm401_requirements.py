"""PM401: requirements files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.companions import COMPANION, note_companion
from mdstorm_migrate.packaging.compiled import is_generated
from mdstorm_migrate.packaging.origins import other_origins
from mdstorm_migrate.packaging.requirement import find_requirements
from mdstorm_migrate.packaging.rewriting import renamed, rewrite_requirement

CODE = "PM401"
TITLE = "Requirements files name mdstorm"
CLASS: Class = "exact"
KIND = "requirements"

#: A line with what it is continued by, up to its comment.
_LINE = re.compile(r"^[ \t]*(?P<body>(?:[^#\\\r\n]|\\\r?\n|\\.|(?<=\S)\#)*)", re.MULTILINE)
_PYSPARK = re.compile(r"^[ \t]*(pyspark|databricks-connect)\b", re.MULTILINE | re.IGNORECASE)
#: Options that say whether some distributions are built from their source.
_FORMATS = re.compile(r"--(?:no|only)-binary(?:[ \t]+|=)(?P<names>[\w.,:-]+)")
_NAME = re.compile(r"(?<![\w.-])petastorm(?![\w.-])", re.IGNORECASE)
#: A distribution that is made for Petastorm, on a line or at the end of an address.
_COMPANION = re.compile(rf"^(?:[ \t]*|[^#\r\n]*\#egg=){COMPANION}", re.MULTILINE | re.IGNORECASE)


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of a requirements file."""
    text = document.text
    if is_generated(text):  # of which PM411 speaks
        return
    brings_spark = _PYSPARK.search(text) is not None or document.needs.together is not None
    for line in _LINE.finditer(text):
        if line["body"].startswith("-"):
            yield from _of_option(document, line)
            continue
        for found in find_requirements(text, *line.span("body")):
            yield from rewrite_requirement(document, found, CODE, "line")
            if not (brings_spark or found.is_fork):
                brings_spark = True  # said once
                yield Finding(
                    CODE,
                    "note",
                    found.start,
                    found.stop,
                    "Petastorm brought pyspark and pandas along, mdstorm does so as mdstorm[spark]",
                )
    for companion in _COMPANION.finditer(text):
        yield note_companion(companion, CODE)
    yield from other_origins(text, CODE)


def _of_option(document: Document, line: re.Match[str]) -> Iterator[Edit]:
    """Yield the edits of an option that names Petastorm, unless it stays or comes from a fork."""
    if document.needs.importers or any(one.is_fork for one in find_requirements(document.text)):
        return
    for option in _FORMATS.finditer(document.text, *line.span("body")):
        for name in _NAME.finditer(document.text, *option.span("names")):
            yield renamed(document, *name.span(), CODE)
