"""Comments ``# mdstorm: ignore[PM101]`` and ``# mdstorm: ignore-file``, which keep rules away."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.python.module import PythonModule

_SUPPRESSING = "mdstorm:"
_COMMENT = re.compile(
    r"#\s*mdstorm:\s*ignore(?P<file>-file)?(?:\[(?P<codes>[A-Za-z0-9,\s]*)\])?(?![\w-])"
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
