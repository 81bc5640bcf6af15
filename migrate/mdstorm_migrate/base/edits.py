"""Edits and findings, which rules yield, and functions that apply edits or show them as a diff.

An `Edit` replaces a span of a document. Files change only through edits, so every byte outside of
their spans is preserved. A `Finding` describes a span and changes nothing by itself; a finding with
a `remedy` becomes a ``# TODO(mdstorm)`` comment, which is inserted by an edit.

Rules count characters in the text of their `Document`. `run.migration` converts these to positions
in the file, fills in `line`, `column` and `cell`, and drops results that were not selected.
"""

from __future__ import annotations

import bisect
import io
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

Class: TypeAlias = Literal["exact", "review", "manual", "note"]
#: The meaning of each class. ``-w`` applies edits of the first, ``--unsafe`` also of the second.
CLASSES: dict[Class, str] = {
    "exact": "same behaviour",
    "review": "behaviour may differ",
    "manual": "needs manual review",
    "note": "worth knowing",
}
#: Edits and findings that depend on the surrounding code have a topic: ``install`` if they are
#: about installing mdstorm, ``run`` if they are about a command that runs a part of the library,
#: ``log`` if they are about the library's messages.
Topic: TypeAlias = Literal["install", "run", "log"]


class EditError(ValueError):
    """Edits that cannot be applied together. Their file is left unchanged."""


#: The group of all edits to strings that contain module names; messages use the same words.
NAMES = "names in strings"


@dataclass(frozen=True)
class Edit:
    """The replacement of a span of a document.

    Attributes
    ----------
    rule : str
        Code of the rule, such as ``"PM101"``.
    cls : {"exact", "review", "manual"}
        ``manual`` is the class of the edits that insert comments.
    start, stop : int
        The half-open span in characters; an empty span inserts.
    replacement : str
        The new text, with the newlines of the surrounding text: see `Lines.newline`.
    message : str
        What changes, in one sentence without a full stop.
    group : hashable, optional
        Edits of one group are applied together or not at all: an import and the uses of the name it
        binds. If one of them is suppressed, not selected or not safe enough, none is applied.
    topic : Topic, optional
    reason : str, optional
        Why an edit that is exact by itself needs review; also part of its message.
    line, column, cell : int
        Where the span begins in the file, counted from 1; columns count characters. In a notebook,
        lines and columns count within the cell `cell`. Filled in by `run.migration`.
    """

    rule: str
    cls: Class
    start: int
    stop: int
    replacement: str
    message: str
    group: Hashable = None
    topic: Topic | None = None
    reason: str | None = None
    line: int = 0
    column: int = 0
    cell: int | None = None


@dataclass(frozen=True)
class Finding:
    """A remark about a span. It changes nothing by itself.

    Attributes
    ----------
    rule, cls, start, stop, topic, reason, line, column, cell
        As in `Edit`; `cls` may also be ``note``.
    message : str
        What was found.
    remedy : str, optional
        What to do, in one line. Where the kind of file allows it, a comment
        ``# TODO(mdstorm): PM107: <remedy>`` is inserted above the statement.
    is_all : bool
        Whether nothing else is reported for the document, because it uses another library.
    is_open_todo : bool
        Whether it is a comment of an earlier run that no other finding of this run explains.
    is_marked : bool
        Whether a comment in the file already says it. Filled in by `run.review`.
    holds : str, optional
        The name that still needs Petastorm here, such as `ArrowReaderWorker`. Objects of one
        library may not work with the other, so edits next to it have to be reviewed.
    because : str, optional
        With `holds`: the reason, if it is not the exchange of objects.
    """

    rule: str
    cls: Class
    start: int
    stop: int
    message: str
    remedy: str | None = None
    is_all: bool = False
    holds: str | None = None
    because: str | None = None
    topic: Topic | None = None
    reason: str | None = None
    line: int = 0
    column: int = 0
    cell: int | None = None
    is_open_todo: bool = False
    is_marked: bool = False

    @property
    def text(self) -> str:
        """The message, followed by what to do about it."""
        if self.remedy is None or self.remedy.startswith(self.message):
            return self.remedy or self.message
        return f"{self.message}; {self.remedy}"

    @property
    def cause(self) -> tuple[str, Class, str]:
        """A key shared by findings with the same reason, even if they concern different objects."""
        return self.rule, self.cls, self.reason or self.text


_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass
class Lines:
    r"""The lines of a string as Python counts them: only ``\n``, ``\r\n`` and ``\r`` end a line.

    Attributes
    ----------
    text : str
    starts : sequence of int
        Where each line begins, in characters from 0.
    newline : str
        The first line ending other than ``\r``, which only some kinds of files treat as one;
        ``\r`` if there is no other, ``"\n"`` if the string has only one line.
    """

    text: str
    starts: Sequence[int] = field(init=False)
    newline: str = field(init=False)

    def __post_init__(self) -> None:
        ends = list(_NEWLINE.finditer(self.text))
        self.starts = [0, *map(re.Match.end, ends)]
        found = (end.group() for end in ends)
        self.newline = next((end for end in found if end != "\r"), "\r" if ends else "\n")

    def place(self, offset: int) -> tuple[int, int]:
        """Return the line and column of a character, both from 1."""
        line = bisect.bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def start_of(self, offset: int) -> int:
        """Return the start of the line that contains `offset`."""
        return self.starts[bisect.bisect_right(self.starts, offset) - 1]


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with the spans of all edits replaced.

    Insertions at the same position keep their order.

    Raises
    ------
    EditError
        If two edits overlap, or one is outside the string.
    """
    pieces = []
    position = 0
    last: Edit | None = None
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.stop)):
        if edit.start < position and last is not None:
            raise EditError(
                f"{edit.rule} and {last.rule} both change the text at character {edit.start:,}"
            )
        if not 0 <= edit.start <= edit.stop <= len(text):
            raise EditError(f"{edit.rule} changes text at {edit.start:,}, outside of the file")
        pieces += [text[position : edit.start], edit.replacement]
        position, last = edit.stop, edit
    return "".join([*pieces, text[position:]])


def moved_by(edits: Sequence[Edit], before: str, finding: Finding, lines: Lines) -> Finding:
    """Return a finding with the place that it has once a file's edits are applied.

    Parameters
    ----------
    edits : sequence of Edit
    before : str
        The text of the file.
    finding : Finding
    lines : Lines
        The lines of the file with the edits.
    """
    earlier = [edit for edit in edits if edit.stop <= finding.start]
    shift = sum(len(edit.replacement) - (edit.stop - edit.start) for edit in earlier)
    start, stop = finding.start + shift, finding.stop + shift
    line, column = lines.place(start)
    if finding.cell is not None:
        in_cell = [edit for edit in earlier if edit.cell == finding.cell]
        added = (one.replacement.count("\\n") for one in in_cell)  # as JSON has it
        removed = (before.count("\\n", one.start, one.stop) for one in in_cell)
        line, column = finding.line + sum(added) - sum(removed), finding.column
    return replace(finding, start=start, stop=stop, line=line, column=column)


def unified_diff(before: str, after: str, path: str) -> str:
    """Return a unified diff with paths as git writes them, or nothing if the strings are equal."""
    import difflib  # slow to import, and only needed for diffs

    name = path.lstrip("/")
    old, new = (list(io.StringIO(text)) for text in (before, after))  # split at line feeds only
    lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="\n")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
