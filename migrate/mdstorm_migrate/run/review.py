"""Comments ``# TODO(mdstorm): PM107: …`` above statements: which to insert, which are there.

One cause has one comment in a document, at its first place: whatever keeps a file with Petastorm is
one cause, and what has the same remedy is another. Further places are lines of the report alone. A
comment that no finding of this run accounts for, since what it was about looks like any other code
once its imports are moved, stays a finding of its own (PM000) until somebody removes it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.base.todo_comments import (
    COMMENTED,
    TodoComment,
    todo_comments,
    todo_text,
)
from mdstorm_migrate.python.module import PythonModule

_HOLDS = "holds the file"
#: Rules whose findings keep files with Petastorm.
_HOLDING = frozenset(["PM101", "PM103", "PM106", "PM107", "PM115", "PM117", "PM119", "PM127"])


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
    said: set[Hashable] = set()
    claimed: set[int] = set()
    ordered = sorted(findings, key=lambda one: one.start)
    told = [one for one in ordered if not one.is_open_todo]
    places = {id(one): _place(document, module, one) for one in told if one.remedy is not None}
    standing: dict[int, TodoComment] = {}
    for in_other_words, one in product((False, True), told):
        place = places.get(id(one))
        above = [] if place is None else _comments_above(document, place, there)
        for comment in above if id(one) not in standing else ():
            is_its = comment.rule == one.rule and (in_other_words or comment.text == one.remedy)
            if is_its and comment.start not in claimed:
                claimed.add(comment.start)
                standing[id(one)] = comment
                said.add(_cause(one))
                break
    if any(one.rule in _HOLDING for one in there.values()):
        said.add(_HOLDS)  # what it was about may be settled, and the comment stands
    for one in told:
        place, cause = places.get(id(one)), _cause(one)
        is_new = place is not None and insert and cause not in said
        if place is not None and is_new:
            said.add(cause)
            found.edits.append(_inserted(document, one, place))
        found.findings.append(replace(one, is_marked=is_new or id(one) in standing))
    found.findings += [one for one in ordered if one.is_open_todo and one.start not in claimed]
    return found


def _cause(found: Finding) -> Hashable:
    """Return what findings have in common of which one comment speaks."""
    if found.holds:
        return _HOLDS
    remedy = found.remedy or ""
    return found.rule, remedy.removeprefix(found.message) or remedy


def _place(document: Document, module: PythonModule | None, found: Finding) -> int | None:
    """Return the line above which a comment about a finding stands; None if none can."""
    if module is not None:
        return document.lines.start_of(module.logical_line(found.start)[0])
    return document.lines.start_of(found.start) if document.kind in COMMENTED else None


def _inserted(document: Document, found: Finding, place: int) -> Edit:
    rest = document.text[place:]
    indent = rest[: len(rest) - len(rest.lstrip(" \t"))]
    comment = todo_text(found.rule, found.remedy or "")
    text = f"{indent}{comment}{document.lines.newline}"
    message = f"a comment says what to do: {found.remedy}"
    return Edit(found.rule, "manual", place, place, text, message)


def _comments_above(
    document: Document, place: int, there: dict[int, TodoComment]
) -> list[TodoComment]:
    """Return the comments that stand directly above the line that begins at `place`."""
    found = []
    starts = document.lines.starts
    line = document.lines.place(place)[0] - 2
    while line >= 0:
        text = document.text[starts[line] : starts[line + 1]]
        if not text.lstrip().startswith("#"):
            break
        at = starts[line] + len(text) - len(text.lstrip())
        if at in there:
            found.append(there[at])
        line -= 1
    return found
