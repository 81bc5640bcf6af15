"""Review findings: insert TODO comments, hold back edits, and apply suppression comments.

Two libraries in one program do not know each other's classes: mdstorm's `Reader` does not accept
Petastorm's pools, and an `except` clause does not catch the other library's errors. So code moves
as a whole, or after a person has reviewed it.

Each cause has one comment ``# TODO(mdstorm): PM107: …`` in a document, at its first place. Findings
with the same remedy have one cause; further places are only in the report. A comment that does not
match any finding in this run stays a separate finding (PM000), because migrated code no longer
shows the comment's subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import NAMES, Edit, Finding
from mdstorm_migrate.base.todos import COMMENTED, TodoComment, todo_comments, todo_text
from mdstorm_migrate.petastorm.names import NEW_ROOT
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules.pm001_mentions import CODE
from mdstorm_migrate.run.outcome import Decision


@dataclass
class Todos:
    """The TODO comments and findings in a document.

    Attributes
    ----------
    edits : list of Edit
        The edits that insert comments.
    findings : list of Finding
        All findings, marked if a comment says the same; open TODOs only if from an earlier run.
    """

    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def todos_of(
    document: Document, module: PythonModule | None, findings: Sequence[Finding], insert: bool
) -> Todos:
    """Return the comments to insert, and each finding once.

    Parameters
    ----------
    document : Document
    module : PythonModule or None
        The parsed document, if it is Python.
    findings : sequence of Finding
        The selected findings, including those of PM000.
    insert : bool
        Whether to insert comments.
    """
    existing = {comment.start: comment for comment in todo_comments(document)}
    ordered = sorted(findings, key=lambda one: one.start)
    reported = [one for one in ordered if not one.is_open_todo]
    places = {id(one): _place(document, module, one) for one in reported if one.remedy is not None}
    own = _comments_of(document, reported, places, existing)
    # A comment of an earlier run also stands for places that it had in common with this one.
    covered: set[tuple[str, str]] = {
        _cause(one)
        for one in findings
        for comment in existing.values()
        if one.remedy and comment.rule == one.rule and comment.text.endswith(_cause(one)[1])
    }
    covered |= {_cause(one) for one in reported if id(one) in own}
    todos = Todos()
    for one in reported:
        place, cause = places.get(id(one)), _cause(one)
        is_new = place is not None and insert and cause not in covered
        if place is not None and is_new:
            covered.add(cause)
            todos.edits.append(_insertion(document, one, place))
        todos.findings.append(replace(one, is_marked=is_new or id(one) in own))
    claimed = set(own.values())
    todos.findings += [one for one in ordered if one.is_open_todo and one.start not in claimed]
    return todos


def _comments_of(
    document: Document,
    reported: Sequence[Finding],
    places: Mapping[int, int | None],
    existing: dict[int, TodoComment],
) -> dict[int, int]:
    """Return the start of the existing comment of each finding that has one, by its `id`.

    Comments that a person has reworded also count, unless they match another finding.
    """
    remedies = {one.remedy for one in reported}
    comments: dict[int, int] = {}
    for one in reported:
        place = places.get(id(one))
        above = [] if place is None else _comments_above(document, place, existing)
        candidates = (
            comment
            for comment in above
            if comment.rule == one.rule
            and comment.start not in comments.values()
            and (comment.text == one.remedy or comment.text not in remedies)
        )
        comment = min(candidates, key=lambda each: each.text != one.remedy, default=None)
        if comment is not None:
            comments[id(one)] = comment.start
    return comments


def _cause(found: Finding) -> tuple[str, str]:
    """Return a key that is the same for all findings that share a comment."""
    remedy = found.remedy or ""
    return found.rule, remedy.removeprefix(found.message) or remedy


def _place(document: Document, module: PythonModule | None, found: Finding) -> int | None:
    """Return where to insert a finding's comment, or None if the document cannot have comments."""
    if module is not None:
        return document.lines.start_of(module.logical_line(found.start)[0])
    return document.lines.start_of(found.start) if document.kind in COMMENTED else None


def _insertion(document: Document, found: Finding, place: int) -> Edit:
    rest = document.text[place:]
    indent = rest[: len(rest) - len(rest.lstrip(" \t"))]
    comment = todo_text(found.rule, found.remedy or "")
    text = f"{indent}{comment}{document.lines.newline}"
    message = f"a comment explains what to do: {found.remedy}"
    return Edit(found.rule, "manual", place, place, text, message)


def _comments_above(
    document: Document, place: int, existing: dict[int, TodoComment]
) -> list[TodoComment]:
    """Return the comments directly above the line that begins at `place`."""
    above = []
    starts = document.lines.starts
    line = document.lines.place(place)[0] - 2
    while line >= 0:
        text = document.text[starts[line] : starts[line + 1]]
        if not text.lstrip().startswith("#"):
            break
        at = starts[line] + len(text) - len(text.lstrip())
        if at in existing:
            above.append(existing[at])
        line -= 1
    return above


#: Why edits wait for code that remains on Petastorm, unless the finding gives another reason.
_NO_MIXING = "the objects of the two libraries do not mix"


def with_review(
    edits: Iterable[Edit], findings: Iterable[Finding], decision: Decision, is_code: bool
) -> list[Edit]:
    """Return the edits to a document, with the class ``review`` where they need review.

    Parameters
    ----------
    edits : iterable of Edit
    findings : iterable of Finding
        Findings that are not suppressed: a person who suppresses one takes responsibility.
    decision : Decision
    is_code : bool
        Whether the document is Python. Other documents are configuration, whose objects any file
        may use.
    """
    held = min((one for one in findings if one.holds), key=lambda one: one.start, default=None)
    reason = None
    if held is not None:
        what = f"{held.rule} in this file must be resolved first ({_quoted(held.holds or '')})"
        reason = f"{what}: {held.because or _NO_MIXING}"
    edits = [_for_review(edit, reason or _condition(edit, decision)) for edit in edits]
    reason = decision.waits_for if is_code else decision.stays
    if any(edit.group == NAMES and edit.cls == "review" for edit in edits):
        reason = reason or "strings in this file that name modules also need review"
    return [_for_review(edit, reason) for edit in edits]


def _condition(edit: Edit, decision: Decision) -> str | None:
    """Return why other files hold an edit to a string, even if its file need not wait."""
    if edit.topic == "log":
        return decision.stays
    return decision.names if edit.group == NAMES else None


def _quoted(held: str) -> str:
    """Return what still needs Petastorm as text for a message, with a dotted path in backticks."""
    return held if " " in held else f"`{held}`"


def _for_review(edit: Edit, reason: str | None) -> Edit:
    if reason is None or edit.cls != "exact" or not edit.rule.startswith("PM1"):
        return edit
    message = f"{edit.message}; needs review: {reason}; --unsafe applies it"
    return replace(edit, cls="review", message=message, reason=reason)


def names_need_review(edits: Iterable[Edit], pending: Iterable[Finding]) -> bool:
    """Whether edits to strings that contain module names wait for ``--unsafe``."""
    names = {(edit.rule, edit.start) for edit in edits if edit.group == NAMES}
    return any((one.rule, one.start) in names for one in pending)


def remaining(findings: Iterable[Finding]) -> str | None:
    """Return the part of a file that still needs Petastorm, or None if the whole file may move."""
    return next((_quoted(one.holds) for one in findings if one.holds), None)


def without_covered_mentions(
    document: Document, findings: Sequence[Finding], edits: Sequence[Edit]
) -> list[Finding]:
    """Drop mentions on lines that also mention mdstorm or have another finding."""
    mentions = [one for one in findings if one.rule == CODE and not one.is_open_todo]
    if not mentions:
        return list(findings)
    others = [one for one in findings if one.rule != CODE]
    if any(one.is_all for one in others):
        return others

    def line(offset: int) -> int:
        return document.lines.place(offset)[0]

    spans = [(one.start, one.stop) for one in others] + [(one.start, one.stop) for one in edits]
    reported = {
        number
        for start, stop in spans
        for number in range(line(start), line(max(start, stop - 1)) + 1)
    }
    reported |= {line(found.start()) for found in re.finditer(NEW_ROOT, document.text)}
    left = {line(one.start): one for one in mentions if line(one.start) not in reported}
    return [*others, *left.values()]


_SUPPRESSING = "mdstorm:"
_COMMENT = re.compile(
    r"#\s*mdstorm:\s*ignore(?P<file>-file)?(?:\[(?P<codes>[A-Za-z0-9,\s]*)\])?(?![\w-])"
)


@dataclass
class Suppressions:
    """The suppression comments in a document.

    Attributes
    ----------
    whole_file : bool
    lines : dict of int to frozenset of str
        Codes or prefixes of codes, by line from 1; the empty set means all codes.
    """

    document: Document
    module: PythonModule | None = None
    whole_file: bool = False
    lines: dict[int, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document, module: PythonModule | None) -> Suppressions:
        """Return the suppressions in the comments of `document`."""
        found = cls(document, module)
        if _SUPPRESSING in document.text:
            for offset, comment in document.comments():
                found._add(offset, comment)
        return found

    def _add(self, offset: int, comment: str) -> None:
        for match in _COMMENT.finditer(comment):
            codes = re.split(r"[\s,]+", (match["codes"] or "").strip().upper())
            if match["file"]:
                self.whole_file = True
            else:
                self.lines[self.document.lines.place(offset)[0]] = frozenset(filter(None, codes))

    def cover(self, subject: Edit | Finding) -> bool:
        """Whether a comment on a line of `subject`, or of its statement, suppresses it."""
        if not self.lines:
            return False
        start, stop = subject.start, subject.stop
        if self.module is not None:
            first, last = self.module.logical_line(start)
            start, stop = min(start, first), max(stop, last)
        first_line, _ = self.document.lines.place(start)
        last_line, _ = self.document.lines.place(stop)
        return any(
            not codes or subject.rule.startswith(tuple(codes))
            for line, codes in self.lines.items()
            if first_line <= line <= last_line
        )
