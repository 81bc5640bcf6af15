"""Comments that the tool reads and writes.

``# mdstorm: ignore[PM101]`` and ``# mdstorm: ignore-file`` keep rules away;
``# TODO(mdstorm): PM107: …`` above a statement says what needs manual review.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.python.module import PythonModule

_SUPPRESSING = "mdstorm:"
_COMMENT = re.compile(
    r"#\s*mdstorm:\s*ignore(?P<file>-file)?(?:\[(?P<codes>[A-Za-z0-9,\s]*)\])?(?![\w-])"
)

_TODO = "# TODO(mdstorm):"

#: Kinds of documents that have comments which begin with ``#``, on lines of their own.
_WITH_COMMENTS: frozenset[Kind] = frozenset(
    {"python", "requirements", "pyproject", "setup_cfg", "conda", "pipfile", "spark_conf"}
)


@dataclass
class Suppressions:
    """What the comments of a document keep away.

    Attributes
    ----------
    whole_file : bool
    lines : dict of int to frozenset of str
        Codes, or how they begin, by line from 1; the empty set stands for all.
    """

    document: Document
    module: PythonModule | None = None
    whole_file: bool = False
    lines: dict[int, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document, module: PythonModule | None) -> Suppressions:
        """Return what the comments of `document` say."""
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

    def cover(self, found: Edit | Finding) -> bool:
        """Whether a comment on one of the lines of `found`, or of its statement, keeps it away."""
        if not self.lines:
            return False
        start, stop = found.start, found.stop
        if self.module is not None:
            first, last = self.module.logical_line(start)
            start, stop = min(start, first), max(stop, last)
        first_line, _ = self.document.lines.place(start)
        last_line, _ = self.document.lines.place(stop)
        return any(
            not codes or found.rule.startswith(tuple(codes))
            for line, codes in self.lines.items()
            if first_line <= line <= last_line
        )


def todo_edits(
    document: Document, module: PythonModule | None, findings: Sequence[Finding]
) -> list[Edit]:
    """Return the edits that insert comments for `findings` with a remedy; none that is there."""
    if document.kind not in _WITH_COMMENTS:
        return []
    edits: dict[tuple[int, str], Edit] = {}
    for found in findings:
        if found.remedy is None:
            continue
        comment = f"{_TODO} {found.rule}: {found.remedy}"
        start = found.start if module is None else module.logical_line(found.start)[0]
        place = document.lines.start_of(start)
        if (place, comment) in edits or comment in _comments_above(document, place):
            continue
        indent = document.lines.indent_of(start)
        edits[place, comment] = Edit(
            found.rule,
            "manual",
            place,
            place,
            f"{indent}{comment}{document.lines.newline}",
            f"says what to do about: {found.message}",
        )
    return list(edits.values())


def _comments_above(document: Document, place: int) -> set[str]:
    """Return the lines of comments directly above the line that begins at `place`."""
    found = set()
    line = document.lines.place(place)[0] - 2
    starts = document.lines.starts
    while line >= 0:
        text = document.text[starts[line] : starts[line + 1]].strip()
        if not text.startswith("#"):
            break
        found.add(text)
        line -= 1
    return found
