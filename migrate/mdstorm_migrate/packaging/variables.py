"""Variables of shells, workflows and templates, and where a text gives them their values."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: A variable, as GitHub and GitLab, CircleCI, Azure, templates and shells have it.
REFERENCE = r"""(?: \$?\{\{ [ ]* \.?(?:[\w-]+\.)* (?P<template>[\w-]+) [ ]* (?:\|[^}\n]*)? \}\}
    | <<[ ]* (?:[\w-]+\.)* (?P<circle>[\w-]+) [ ]*>> | \$\( (?P<azure>[\w.-]+) \)
    | \$\[{1,2}[ ]* (?:[\w-]+\.)* (?P<brackets>[\w-]+) [ ]*\] | [$\#]\{ (?:\w+\.)* (?P<braces>\w+)
    | \$(?:env:)? (?P<shell>\w+) | % (?P<windows>\w+) % | @ (?P<autoconf>\w+) @ )"""
#: What is put in by a shell, a template or a tool: variables, expressions, the output of commands.
INTERPOLATION = (
    r"(?:\$?\{\{[^}\n]*\}\}|\$\{(?:[^{}\n]|\{[^{}\n]*\})*\}|\#\{[^}\n]*\}|\{[\w.:\[\] -]+\}"
    r"|\$\((?:[^()\n]|\([^()\n]*\))*\)|\$\[\[[^\]\n]*\]\]|\$\[[^\]\n]*\]|<<[ ]?[\w. -]+>>"
    r"|<%=?[^%\n]*%>|`[^`\s][^`\n]*`|\$(?:env:)?\w+|%\w+%|%\(\w+\)s|@\w+@)"
)
#: The beginning of an expression, up to a name in it that is no text.
_OPENED = re.compile(r"\{[{%](?:(?![%}]\})[^\n\"']|\"[^\"\n]*\"|'[^'\n]*')*\Z")
#: What stands right before and behind a name that is the whole of a reference.
_AROUND = (("<<", ">>"), ("{", "}"), ("$(", ")"), ("%", "%"), ("@", "@"))
#: How far around a name that is looked for, in characters.
_FAR = 200
_REFERENCE = re.compile(REFERENCE, re.VERBOSE)


def referenced(text: str) -> Iterator[str]:
    """Yield the names of the variables in a text."""
    for found in _REFERENCE.finditer(text):
        yield found[found.lastgroup or 0]


def is_variable(text: str, start: int, stop: int) -> bool:
    """Whether a word is a name in an interpolation, which stands for something else."""
    line = max(text.rfind("\n", 0, start) + 1, start - _FAR)
    before, behind = text[line:start].rstrip(" "), text[stop : stop + _FAR].lstrip(" ")
    if any(before.endswith(opens) and behind.startswith(closes) for opens, closes in _AROUND):
        return True
    at = max(before.rfind("{{"), before.rfind("{%"))
    return at >= 0 and _OPENED.match(before, at) is not None


def definition(text: str, name: str) -> tuple[int, int] | None:
    """Return where the name stands that first gets a version, or several; None if nowhere."""
    found = re.search(
        rf"""(?:^|(?<!\$)\{{|[,;]|\\\n|\b(?:ARG|ENV|export|name:|variable)[ \t])[ \t]*(?:-[ \t]+)?
        (?:name:[ \t]*)?["']?(?P<name>{re.escape(name)})["']?
        [ \t]*(?:[:?+]?=|:|\{{|\n|(?<=\w)[ \t])\s*\{{?\s*
        (?:["']?(?:type|description)\b[^\n,]*[\n,]\s*)*
        (?:["']?(?:default|value)["']?[ \t]*[:=]\s*)?
        (?:[\["'\s-])*\d""",
        text,
        re.MULTILINE | re.VERBOSE,
    )
    return None if found is None else found.span("name")
