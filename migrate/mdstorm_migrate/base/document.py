"""The text of a file, and the documents in it that rules check.

A `Document` is one text of one kind: a Python file; all Python cells of a notebook, one after the
other, since they share their names; one ``%pip`` line; a requirements file. It is made of
segments, each of which knows where its characters stand in the file and how new text is spelt
there: plain for most files, with JSON escapes in a notebook.
"""

from __future__ import annotations

import bisect
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args

from mdstorm_migrate.base.edits import Edit, EditError, Finding, Lines
from mdstorm_migrate.base.needs import Needs


class Placement(Protocol):
    """Where the characters of a segment stand in the text of the file."""

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file of the span `start:stop` of the segment."""

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` as it is written in the file in place of `start:stop`."""


@dataclass(frozen=True)
class Shift:
    """A segment that stands in the file as it is, from character `offset` on."""

    offset: int = 0

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file."""
        return start + self.offset, stop + self.offset

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` unchanged."""
        return replacement


@dataclass(frozen=True)
class Segment:
    """A part of a document.

    Attributes
    ----------
    text : str
        What rules see.
    placement : Placement or None
        None: text that the file does not have, such as the line between two cells.
    cell : int or None
        Number of the notebook's cell, from 1, if lines count within it.
    first_line : int
        With `cell`: line of the cell on which the segment begins, less one.
    """

    text: str
    placement: Placement | None = Shift()
    cell: int | None = None
    first_line: int = 0

    @cached_property
    def lines(self) -> Lines:
        """Lines of `text`."""
        return Lines(self.text)


_Found = TypeVar("_Found", Edit, Finding)

#: What rules are written for. ``python``: Python code. ``magic``: one line such as
#: ``%pip install x`` or ``!pip install x``, with its continuation lines. ``shell``: the body of a
#: ``%%bash`` cell, or a shell script. ``text``: a file of any other kind. ``other``: a cell in
#: another language. The others are kinds of files.
Kind: TypeAlias = Literal[
    "python",
    "magic",
    "shell",
    "requirements",
    "lock",
    "pyproject",
    "setup_cfg",
    "conda",
    "pipfile",
    "docker",
    "cluster",
    "markdown",
    "text",
    "other",
]

#: Those that people write for programs to read, with comments.
WRITTEN: tuple[Kind, ...] = tuple(
    kind for kind in get_args(Kind) if kind not in ("lock", "markdown", "text", "other")
)


#: The first line of a notebook that Databricks has exported as Python source.
DATABRICKS_HEADER = b"# Databricks notebook source"


class SourceError(ValueError):
    """A file, or a cell of it, that cannot be read or parsed. The message is the reason.

    Attributes
    ----------
    line : int or None
        Where, from 1.
    cell : int or None
        In which cell of a notebook, from 1.
    imports : bool
        Whether that cell imports Petastorm.
    """

    def __init__(
        self,
        reason: str,
        line: int | None = None,
        cell: int | None = None,
        imports: bool = False,
    ) -> None:
        super().__init__(reason)
        self.line = line
        self.cell = cell
        self.imports = imports


@dataclass
class Document:
    """A text of one kind, and where it stands in the file.

    Attributes
    ----------
    kind : Kind
    segments : sequence of Segment
    path : PurePath or None
        Path of the file.
    needs : Needs
        What the project needs of the requirements in it.
    text : str
        The texts of the segments, one after the other.
    lines : Lines
        Lines of `text`.
    code : str
        Python only: what is parsed, of the same length as `text`: magics are masked in it.
    """

    kind: Kind
    segments: Sequence[Segment]
    path: PurePath | None = None
    code: str = ""
    needs: Needs = field(default_factory=Needs)
    text: str = field(init=False)
    lines: Lines = field(init=False)
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.text = "".join(segment.text for segment in self.segments)
        self.code = self.code or self.text
        self.lines = Lines(self.text)
        self._starts = []
        position = 0
        for segment in self.segments:
            self._starts.append(position)
            position += len(segment.text)

    def segment_at(self, offset: int) -> tuple[Segment, int]:
        """Return the segment of a character, and where the segment begins in the document."""
        number = max(bisect.bisect_right(self._starts, offset) - 1, 0)
        return self.segments[number], self._starts[number]

    def comments(self) -> Iterator[tuple[int, str]]:
        """Yield where each comment begins, and its text."""
        if self.kind != "python":
            yield from ((match.start(), match.group()) for match in re.finditer("#.*", self.text))
            return
        starts = self.lines.starts
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.code, newline="").readline):
                if token.type == tokenize.COMMENT:
                    yield starts[token.start[0] - 1] + token.start[1], token.string
        except (tokenize.TokenError, SyntaxError):
            return  # the parser has accepted it: what has been seen so far counts

    def in_file(self, found: _Found, file: Lines) -> _Found:
        """Return an edit or a finding in characters of the file, with its line and column.

        Raises
        ------
        EditError
            If it spans cells, or text that the file does not have.
        """
        segment, first = self.segment_at(found.start)
        if segment.placement is None and found.stop == first > 0:  # it is the end of a cell
            segment, first = self.segment_at(first - 1)
        start, stop = found.start - first, found.stop - first
        if segment.placement is None or stop > len(segment.text):
            raise EditError(f"{found.rule} spans cells at character {found.start:,}")
        at, until = segment.placement.span(start, stop)
        line, column = file.place(at)
        if segment.cell is not None:
            line, column = segment.lines.place(start)
            line += segment.first_line
        changes: dict[str, Any] = {"start": at, "stop": until, "line": line, "column": column}
        if isinstance(found, Edit):
            changes["replacement"] = segment.placement.spell(found.replacement, start, stop)
        return replace(found, **changes, cell=segment.cell)


@dataclass(frozen=True)
class DecodedFile:
    """A file that was read.

    Attributes
    ----------
    text : str
        All of the file, decoded.
    documents : sequence of Document
        What rules check; spans of all of them lie in `text`.
    encoding : str
    prefix : bytes
        Bytes before the text: a byte order mark.
    broken : sequence of SourceError
        Cells that were left out, since they use Petastorm and cannot be parsed.
    unparsed : int
        How many cells cannot be parsed, with those that do not use Petastorm.
    """

    text: str
    documents: Sequence[Document]
    encoding: str = "utf-8"
    prefix: bytes = b""
    broken: Sequence[SourceError] = ()
    unparsed: int = 0

    @cached_property
    def lines(self) -> Lines:
        """Lines of `text`."""
        return Lines(self.text)

    def encode(self, text: str) -> bytes:
        """Return the bytes of a file with a new text."""
        return self.prefix + text.encode(self.encoding)


class Source(Protocol):
    """One kind of file. Add one as a module of `mdstorm_migrate.sources`; see there."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether this source reads the file, by its path and its first 256 bytes."""

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return what is in the file.

        Raises
        ------
        SourceError
            If it cannot be read. Of a notebook, cells that cannot be parsed are left out.
        """


#: What every such comment has in it.
MARK = "TODO(mdstorm)"
#: Kinds that have other comments, or quote those of others.
_QUOTING: frozenset[Kind] = frozenset({"lock", "markdown", "other", "text"})
_COMMENT = re.compile(
    r"#\s*TODO\(mdstorm\):?[ \t]*(?:(?P<rule>PM\d{3})\b:?[ \t]*)?(?P<text>[^\r\n]*)"
)
#: Kinds of documents in which every line may have a comment above it. Elsewhere, lines belong
#: together, and what is left is in the report alone.
COMMENTED: frozenset[Kind] = frozenset(
    {"conda", "pipfile", "pyproject", "python", "requirements", "setup_cfg"}
)


@dataclass(frozen=True)
class TodoComment:
    """A comment.

    Attributes
    ----------
    start, stop : int
        Its span in characters of the document.
    rule : str or None
        The code in it, if it has one.
    text : str
        What is left to do.
    """

    start: int
    stop: int
    rule: str | None
    text: str


def todo_text(rule: str, what: str) -> str:
    """Return a comment."""
    return f"# {MARK}: {rule}: {what}"


def todo_comments(document: Document) -> Iterator[TodoComment]:
    """Yield the comments of a document, in its order."""
    is_json = document.path is not None and document.path.suffix.lower() == ".json"
    if MARK not in document.text or is_json or document.kind in _QUOTING:
        return
    for offset, comment in document.comments():
        match = _COMMENT.search(comment)
        if match is not None:
            start = offset + match.start()
            stop = start + len(match.group().rstrip())
            yield TodoComment(start, stop, match["rule"], match["text"].strip())
