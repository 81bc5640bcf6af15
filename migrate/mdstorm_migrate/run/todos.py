"""Comments ``# TODO(mdstorm): PM107: …`` above statements: which to insert, which are there.

A finding with a remedy gets one, unless one is there. The first place of a document says all;
further places where the same is to be done refer to it. A comment that no finding of this run
accounts for, since what it was about looks like any other code once its imports are moved, stays a
finding of its own (PM000) until somebody removes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.base.todo_comments import (
    COMMENTED,
    REFERRING,
    TodoComment,
    todo_comments,
    todo_text,
)
from mdstorm_migrate.python.module import PythonModule


@dataclass
class Todos:
    """What becomes of the findings of a document.

    Attributes
    ----------
    edits : list of Edit
        Those that insert comments.
    findings : list of Finding
        All of them, those marked that a comment says; of open TODOs, those of earlier runs only.
    """

    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def todos_of(
    document: Document, module: PythonModule | None, findings: Sequence[Finding], insert: bool
) -> Todos:
    """Return the comments to insert, and the findings, each place once.

    Parameters
    ----------
    document : Document
    module : PythonModule or None
        Of a Python document.
    findings : sequence of Finding
        Those that were selected, PM000's among them.
    insert : bool
        Whether comments are wanted.
    """
    there = {comment.start: comment for comment in todo_comments(document)}
    found = Todos()
    planned: set[tuple[int, str]] = set()
    said: set[tuple[str, str]] = set()
    claimed: set[int] = set()
    for one in sorted(findings, key=lambda finding: finding.start):
        if one.is_open_todo:
            continue
        if one.remedy is None:
            found.findings.append(one)
            continue
        place = _place(document, module, one)
        if place is None:
            found.findings.append(one)
            continue
        full, brief = todo_text(one.rule, one.remedy), _brief(one)
        reason = one.rule, one.remedy.removeprefix(one.message)
        comment = brief if reason in said else full
        said.add(reason)
        above = [there[at] for at in _places_above(document, place) if at in there]
        old = _standing_for(above, one.rule, (full, brief), claimed)
        if old is not None:
            claimed.add(old.start)
        elif insert and not {(place, full), (place, brief)} & planned:
            planned.add((place, comment))
            found.edits.append(_inserted(document, one, place, comment))
        found.findings.append(replace(one, is_marked=old is not None or insert))
    found.findings += [one for one in findings if one.is_open_todo and one.start not in claimed]
    return found


def _brief(found: Finding) -> str:
    """Return the comment for a further place with the same remedy."""
    full = todo_text(found.rule, found.remedy or "")
    brief = todo_text(found.rule, f"{REFERRING}{found.message}")
    return brief if len(brief) < len(full) else full


def _standing_for(
    above: Sequence[TodoComment], rule: str, texts: tuple[str, str], claimed: set[int]
) -> TodoComment | None:
    """Return the comment that says it: in these words, or somebody's own with the same code."""
    exact = [one for one in above if one.whole in texts]
    own = [one for one in above if one.rule == rule and one.start not in claimed]
    return next(iter([*exact, *own]), None)


def _place(document: Document, module: PythonModule | None, found: Finding) -> int | None:
    """Return the line above which a comment about a finding stands; None if none can."""
    if module is not None:
        return document.lines.start_of(module.logical_line(found.start)[0])
    return document.lines.start_of(found.start) if document.kind in COMMENTED else None


def _inserted(document: Document, found: Finding, place: int, comment: str) -> Edit:
    rest = document.text[place:]
    indent = rest[: len(rest) - len(rest.lstrip(" \t"))]
    text = f"{indent}{comment}{document.lines.newline}"
    message = f"a comment says what to do: {found.remedy}"
    return Edit(found.rule, "manual", place, place, text, message)


def _places_above(document: Document, place: int) -> list[int]:
    """Return where the comments begin that stand directly above the line that begins at `place`."""
    found = []
    starts = document.lines.starts
    line = document.lines.place(place)[0] - 2
    while line >= 0:
        text = document.text[starts[line] : starts[line + 1]]
        if not text.lstrip().startswith("#"):
            break
        found.append(starts[line] + len(text) - len(text.lstrip()))
        line -= 1
    return found
