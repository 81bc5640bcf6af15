"""Variables of shells, workflows and templates, and where a text gives them their values."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: A variable, as GitHub and GitLab, CircleCI, Azure, templates and shells have it.
REFERENCE = r"""(?: \$?\{\{ [ ]* (?:[\w-]+\.)* (?P<template>[\w-]+) [ ]* \}\}
    | <<[ ]* (?:[\w-]+\.)* (?P<circle>[\w-]+) [ ]*>> | \$\( (?P<azure>[\w.-]+) \)
    | \$\{? (?P<shell>\w+) )"""
_REFERENCE = re.compile(REFERENCE, re.VERBOSE)


def referenced(text: str) -> Iterator[str]:
    """Yield the names of the variables in a text."""
    for found in _REFERENCE.finditer(text):
        yield found[found.lastgroup or 0]


def definition(text: str, name: str) -> tuple[int, int] | None:
    """Return where the name stands that first gets a version, or several; None if nowhere."""
    found = re.search(
        rf"""(?:^|(?<!\$)\{{|[,;]|\\\n|\b(?:ARG|ENV|export)[ \t])[ \t]*(?:-[ \t]+)?["']?
        (?P<name>{re.escape(name)})["']?
        [ \t]*(?:[:?+]?=|:|(?<=\w)[ \t])\s*(?:[\["'\s-])*\d""",
        text,
        re.MULTILINE | re.VERBOSE,
    )
    return None if found is None else found.span("name")
