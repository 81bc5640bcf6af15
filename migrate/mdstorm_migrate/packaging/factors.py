"""Factors of tox that choose a version of Petastorm: ``petastorm12: petastorm>=0.12,<0.13``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.requirement import is_versioned
from mdstorm_migrate.packaging.rewriting import verdict
from mdstorm_migrate.petastorm.names import OLD_ROOT

_FACTORS = re.compile(r"(?P<factors>[\w.,{}!-]+):[ \t]*\Z")
#: Those of Pythons, which choose more than a version.
_PYTHONS = re.compile(r"!?(?:py|pypy|cpython)[\d.]*")
#: What ends a list.
_END = re.compile(r"\n[^\s#;]")


def report_factors(
    document: Document, lines: Sequence[re.Match[str]], rule: str
) -> Iterator[Finding]:
    """Report the factors that mean nothing once mdstorm is required, once for each list.

    Parameters
    ----------
    document : Document
    lines : sequence of re.Match
        Its lines that require Petastorm, as the group ``requirement``.
    rule : str
    """
    if document.needs.importers:
        return  # versions of Petastorm go on being chosen
    text = document.text
    lists: list[list[re.Match[str]]] = []
    for line in lines:
        if not lists or _END.search(text, lists[-1][-1].end(), line.end()):
            lists.append([])
        lists[-1].append(line)
    for one in lists:
        chosen = [(line, factors) for line in one if (factors := _choosing(text, line))]
        versions = {line["requirement"].strip() for line, _ in chosen}
        if len(versions) > 1 or any(OLD_ROOT in factors.lower() for _, factors in chosen):
            names = ", ".join(f"`{factors}`" for _, factors in chosen)
            what = f"{names} choose{'' if chosen[1:] else 's'} a version of Petastorm"
            remedy = f"{what}: require mdstorm once, and take out what chooses nothing else"
            span = chosen[0][0].span("requirement")
            if verdict(document)[0] == "exact":
                yield Finding(rule, "manual", *span, what, remedy, topic="install")
            else:  # Petastorm may stay for now
                yield Finding(rule, "note", *span, remedy)


def _choosing(text: str, line: re.Match[str]) -> str:
    """Return the factors under which a line requires a version; none if they are Pythons alone."""
    start = line.start("requirement")
    found = _FACTORS.search(text, text.rfind("\n", 0, start) + 1, start)
    if found is None or not is_versioned(line["requirement"]):
        return ""
    names = re.split(r"[-,{}]+", found["factors"])
    return "" if all(_PYTHONS.fullmatch(name) for name in names if name) else found["factors"]
