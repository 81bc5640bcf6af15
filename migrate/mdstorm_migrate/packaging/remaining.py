"""Requirements of Petastorm in places that no rule knows: they are reported, never passed over."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.requirement import (
    Requirement,
    find_requirements,
    has_channel,
    is_versioned,
    of_conda,
)
from mdstorm_migrate.packaging.sentences import MAY_SPEAK, is_sentence

#: What is before the last words of a command that goes over several lines, as in folded YAML.
_INSTALLING = re.compile(r"""\b(?:install|add)\b[\s\w.=<>~"'\[\],-]*\Z""")
#: Other requirements before one on its line.
_LISTED = re.compile(r"""\s*(?:-\s+)?(?:["']?[\w.\[\],-]+[=<>~]=?\S+\s+)*["']?""")
#: A command that takes a version away, up to its last words.
_UNINSTALLING = re.compile(r"\buninstall\b(?:[^\n\\;&|]|\\\r?\n|\\.)*\Z")
#: The module ``pip`` of Ansible, up to a name.
_ANSIBLE = re.compile(
    r"""\bpip:[ \t]*(?:\{(?:[^}\n]*,)?[ \t]*|\n[ \t]+(?:[a-z_]+:[^\n]*\n[ \t]+)*)?
    name[:=][ \t]*(?:\n(?:[ \t]*-[^\n]*\n)*[ \t]*-[ \t]*)?["']?\Z""",
    re.VERBOSE,
)
#: A key whose value is a list of packages, up to one of them: ``EXTRA_PIP_PACKAGES: a b``.
_KEYED = re.compile(
    r"""\b\w*(?:PIP\w*(?:PACKAGES|REQUIREMENTS|DEPENDENCIES)|PACKAGES_PIP)["']?
    (?: [ \t]*[:=] | \s*\n[ \t]*["']?value["']?[ \t]*[:=] | [ \t] )
    [ \t]*["']?(?:[\w.\[\],-]+(?:[=<>~!]=?[\w.*]+)?[ \t,]+)*\Z""",
    re.VERBOSE | re.IGNORECASE,
)
#: What follows a name that begins a sentence in quotes: ``"petastorm metadata failed: "``.
_SENTENCE = re.compile(r"(?:[ ][A-Za-z']+){2,}[.:!?,]?(?=[ \"'])")
#: How far above a requirement that is looked for, in characters.
_ABOVE = 200
_LIBRARY = re.compile(r"pypi|coordinates")
#: Lines that only say something.
_SAYING = re.compile(r"""^\s*(?:-\s+)?@?(?:echo|printf|logger?)\b(?![^\n]*>)""")


def report_remaining(
    document: Document, rule: str, seen: Collection[int], plain: re.Pattern[str] | None = None
) -> Iterator[Finding]:
    """Report requirements with a version or an extra, and those of commands over several lines.

    Of several on one line, such as a variable and its value, one is reported.

    Parameters
    ----------
    document : Document
    rule : str
    seen : collection of int
        Where requirements begin that something has been done about.
    plain : re.Pattern, optional
        What stands on the line of a requirement without a version, or above it.
    """
    lines: dict[int, Requirement] = {}
    for found in find_requirements(document.text):
        if found.start in seen:
            continue
        if has_channel(document.text, found) and not is_commented_out(
            document.text, found.start, ANY
        ):
            yield of_conda(found, rule, "take petastorm out here, and have pip install mdstorm")
        elif _is_required(document, found, plain):
            line = document.lines.start_of(found.start)
            first = lines.setdefault(line, found)
            if found.stop - found.start > first.stop - first.start:
                lines[line] = found
    for found in lines.values():
        yield Finding(
            rule,
            "manual",
            found.start,
            found.stop,
            "this seems to require Petastorm, in a place that is not migrated",
            "require mdstorm here, without the version",
            topic="install",
        )


def _is_required(document: Document, found: Requirement, plain: re.Pattern[str] | None) -> bool:
    text = document.text
    start = document.lines.start_of(found.start)
    end = text.find("\n", found.stop)
    before, line = text[start : found.start], text[start : len(text) if end < 0 else end]
    if is_commented_out(text, found.start, ANY) or _SAYING.match(line):
        return False
    if document.kind in MAY_SPEAK and is_sentence(text, found.start):
        return False
    above = text[max(found.start - _ABOVE, 0) : found.start]
    if _UNINSTALLING.search(above):
        return False
    if found.is_fork or is_versioned(text[found.start : found.stop]):
        return True
    if found.is_open and re.match(r"[=<>~!]=", text[found.stop :]):
        return True
    goes_on = "\n" in above and _LISTED.fullmatch(before) and _INSTALLING.search(above)
    if goes_on or _ANSIBLE.search(above) or _KEYED.search(above):
        return True
    if re.search(r"""["']\Z""", before) and _SENTENCE.match(text, found.stop):
        return False
    return plain is not None and bool(plain.search(line) or _LIBRARY.search(above))
