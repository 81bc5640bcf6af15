"""Python in files that nothing reads as such: Cython, templates, notebooks of Zeppelin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.requirement import find_requirements
from mdstorm_migrate.petastorm.names import OLD_ROOT

_CYTHON = frozenset({".pxd", ".pxi", ".pyx"})
_TEMPLATES = frozenset(
    {".erb", ".in", ".j2", ".jinja", ".jinja2", ".mako", ".template", ".tmpl", ".tpl"}
)
_IMPORT = re.compile(
    rf"^[ \t]*(?:from[ \t]+(?P<part>{OLD_ROOT})(?:\.\w+)*[ \t]+c?import"
    rf"|c?import[ \t]+(?P<root>{OLD_ROOT}))\b(?!-)",
    re.MULTILINE,
)
_PARAGRAPHS = re.compile(r'"paragraphs"\s*:\s*\[')
#: A line of a paragraph, in a string of JSON.
_LINE = re.compile(r'(?:(?<=")|(?<=\\n))(?:[^"\\\n]|\\[^n\n])+')
_INSTALL = re.compile(r"\bpip[\d.]*[ \t](?:\S+[ \t]+)*?install\b")


def is_zeppelin(text: str) -> bool:
    """Whether a text is a notebook of Zeppelin, in JSON."""
    return _PARAGRAPHS.search(text) is not None


def uses_of_zeppelin(text: str, rule: str) -> Iterator[Finding]:
    """Report the lines of paragraphs that import or install Petastorm."""
    for line in _LINE.finditer(text) if is_zeppelin(text) else ():
        found = _IMPORT.match(line[0])
        if found is not None:
            start, stop = found.span(found.lastgroup or 0)
            spans = [(line.start() + start, line.start() + stop)]
            what = "this paragraph of a notebook imports Petastorm"
        else:
            is_install = _INSTALL.search(line[0]) is not None
            required = find_requirements(text, *line.span()) if is_install else ()
            spans = [(one.start, one.stop) for one in required]
            what = "this paragraph of a notebook installs Petastorm"
        for span in spans:
            yield Finding(rule, "manual", *span, what, f"{what}: name mdstorm")


def imports_elsewhere(document: Document, rule: str) -> Iterator[Finding]:
    """Report imports of Petastorm in Cython and in templates of Python code."""
    if document.path is None or not _has_code(document.path):
        return
    for found in _IMPORT.finditer(document.text):
        what = "this imports Petastorm, in code that is not read as Python"
        span = found.span(found.lastgroup or 0)
        yield Finding(rule, "manual", *span, what, f"{what}: import mdstorm")


def _has_code(path: PurePath) -> bool:
    is_template = path.suffix in _TEMPLATES and PurePath(path.stem).suffix == ".py"
    return is_template or path.suffix in _CYTHON
