"""Edits and findings, which rules return; edits applied to a text, and shown as a diff.

An `Edit` replaces a span of a text. Edits are the only way in which a file changes, so no byte
outside of one can. A `Finding` says something about a span and changes nothing by itself; one with
a `remedy` becomes a ``# TODO(mdstorm)`` comment, which is an edit again.

Rules count characters in the text of the `Document` they were given. `run.migration` converts these
to positions in the file, fills in `line`, `column` and `cell`, and drops what was not selected.
"""

from __future__ import annotations

import bisect
import io
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

#: ``exact``: the same behaviour, applied by ``-w``. ``review``: behaviour may differ, applied by
#: ``--unsafe``. ``manual``: needs manual review. ``note``: worth knowing, nothing to do.
Class: TypeAlias = Literal["exact", "review", "manual", "note"]
CLASSES: tuple[Class, ...] = ("exact", "review", "manual", "note")
#: What edits and findings are judged by together with the code around: ``install`` is what installs
#: mdstorm, or has to, ``run`` a command that runs a part of the library.
Topic: TypeAlias = Literal["install", "run"]


class EditError(ValueError):
    """Edits that cannot be applied together: the file they belong to is left alone."""


#: The group of the edits of strings that name modules, and what is in them.
NAMES = "names in strings"


@dataclass(frozen=True)
class Edit:
    """A span of a text and what stands there instead.

    Attributes
    ----------
    rule : str
        Code of the rule, such as ``"PM101"``.
    cls : {"exact", "review", "manual"}
        ``manual`` is the class of the edits that insert comments.
    start, stop : int
        The span in characters, half open; an empty one inserts.
    replacement : str
        The new text. Newlines are those of the text around it: see `Lines.newline`.
    message : str
        What changes, in one sentence without a full stop.
    group : hashable, optional
        Edits of one group are applied all or none: an import and the uses of the name it binds.
        If one of them is suppressed, not selected or not safe enough, none is applied.
    topic : Topic, optional
    line, column, cell : int
        Where the span begins in the file: line from 1, column from 1 in characters; in a notebook,
        line and column count within the cell, and `cell` from 1. Filled in by
        `run.migration`.
    """

    rule: str
    cls: Class
    start: int
    stop: int
    replacement: str
    message: str
    group: Hashable = None
    topic: Topic | None = None
    line: int = 0
    column: int = 0
    cell: int | None = None


@dataclass(frozen=True)
class Finding:
    """A remark about a span, which changes nothing by itself.

    Attributes
    ----------
    rule, cls, start, stop, topic, line, column, cell
        As those of `Edit`; `cls` may be ``note``.
    message : str
        What was found.
    remedy : str, optional
        What to do, in one line. With it, a comment ``# TODO(mdstorm): PM107: <remedy>`` is inserted
        above the statement, where the kind of file has such comments.
    is_all : bool
        Whether nothing else is said of the document: it is about another library.
    is_open_todo : bool
        Whether it is such a comment of an earlier run, which nothing else accounts for.
    is_marked : bool
        Whether such a comment says it. Filled in by `run.review`.
    holds : str, optional
        What still needs Petastorm here, as `ArrowReaderWorker`. The objects of one library may mean
        nothing to the other, so what moves beside it is to be reviewed.
    because : str, optional
        With `holds`: why that is so, if objects are not the reason.
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
    line: int = 0
    column: int = 0
    cell: int | None = None
    is_open_todo: bool = False
    is_marked: bool = False

    @property
    def text(self) -> str:
        """The message, and what to do about it."""
        if self.remedy is None or self.remedy.startswith(self.message):
            return self.remedy or self.message
        return f"{self.message}; {self.remedy}"


_NEWLINE = re.compile(r"\r\n|\r|\n")


@dataclass
class Lines:
    r"""Lines of a text, as Python counts them: ended by ``\n``, ``\r\n`` or ``\r``, nothing else.

    Attributes
    ----------
    text : str
    starts : sequence of int
        Where each line begins, in characters.
    newline : str
        What ends the first line that does not end in ``\r``, which only some kinds of files take
        for an end; that, if all lines do; ``"\n"`` if there is but one.
    """

    text: str
    starts: Sequence[int] = field(init=False)
    newline: str = field(init=False)

    def __post_init__(self) -> None:
        self.starts = [0, *(end.end() for end in _NEWLINE.finditer(self.text))]
        found = (end.group() for end in _NEWLINE.finditer(self.text))
        is_one = len(self.starts) == 1
        self.newline = next((end for end in found if end != "\r"), "\n" if is_one else "\r")

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column, both from 1."""
        line = bisect.bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def start_of(self, offset: int) -> int:
        """Return where the line of `offset` begins."""
        return self.starts[bisect.bisect_right(self.starts, offset) - 1]


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return `text` with its spans replaced.

    Insertions at one place stand in the order in which they come.

    Raises
    ------
    EditError
        If two edits overlap, or one lies outside of the text.
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


def unified_diff(before: str, after: str, path: str) -> str:
    """Return a unified diff, with paths as git writes them; empty if the texts are equal."""
    import difflib  # which takes a while, and only diffs need

    name = path.lstrip("/")
    old, new = (list(io.StringIO(text)) for text in (before, after))  # at line feeds alone
    lines = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="\n")
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
