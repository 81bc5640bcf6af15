"""The text of a file, and the documents in it that rules check.

A `Document` is text of one kind: a Python file; all Python cells of a notebook together, since
they share their names; one ``%pip`` line; a requirements file. It consists of segments, and each
segment knows its place in the file and how new text is written there: plain in most files, with
JSON escapes in a notebook.
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
    """Where a segment is in the text of the file, and how new text is written there."""

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file for the span `start:stop` of the segment."""

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` as it must be written in the file in place of `start:stop`."""


@dataclass(frozen=True)
class Shift:
    """The placement of a segment that is verbatim in the file, starting at character `offset`."""

    offset: int = 0

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span shifted by `offset`."""
        return start + self.offset, stop + self.offset

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` unchanged."""
        return replacement


@dataclass(frozen=True)
class TextSegment:
    """A contiguous piece of a document, such as the code of one cell.

    Attributes
    ----------
    text : str
        The text that rules see.
    placement : Placement or None
        None for text that is not in the file, such as the line between two cells.
    cell : int or None
        Number of the notebook cell, from 1, if lines count within the cell.
    first_line : int
        With `cell`: how many lines of the cell come before the segment.
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

#: The kinds of text that rules check. ``python``: Python code. ``magic``: one line such as
#: ``%pip install x`` or ``!pip install x``, with its continuation lines. ``shell``: the body of a
#: ``%%bash`` cell, or a shell script. ``text``: a file of any other kind. ``other``: a cell in
#: another language. The remaining kinds are kinds of files.
DocumentKind: TypeAlias = Literal[
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

#: Kinds that people write by hand for programs to read, and that can contain comments.
WRITTEN: tuple[DocumentKind, ...] = tuple(
    kind for kind in get_args(DocumentKind) if kind not in ("lock", "markdown", "text", "other")
)


#: The first line of a notebook that Databricks has exported as Python source.
DATABRICKS_HEADER = b"# Databricks notebook source"


def is_databricks_notebook(path: PurePath) -> bool:
    """Whether a file can be read and is a notebook in Python source, which cannot be imported."""
    try:
        with open(path, "rb") as file:
            return file.read(len(DATABRICKS_HEADER)) == DATABRICKS_HEADER
    except OSError:
        return False


def is_setup_script(path: PurePath | None) -> bool:
    """Whether a file lists requirements in Python; notebooks may have the same name."""
    return path is not None and path.name == "setup.py" and not is_databricks_notebook(path)


class SourceError(ValueError):
    """A file or notebook cell that cannot be read or parsed. The message is the reason.

    Attributes
    ----------
    line : int or None
        Where the problem is, from 1.
    cell : int or None
        The notebook cell of the problem, from 1.
    imports : bool
        Whether the cell imports Petastorm.
    libraries : frozenset of str
        The packages that the cell's code mentions: `petastorm`, `streaming`.
    """

    def __init__(
        self,
        reason: str,
        line: int | None = None,
        cell: int | None = None,
        imports: bool = False,
        libraries: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(reason)
        self.line = line
        self.cell = cell
        self.imports = imports
        self.libraries = libraries


@dataclass
class Document:
    """Text of one kind, with its position in the file.

    Attributes
    ----------
    kind : DocumentKind
    segments : sequence of TextSegment
    path : PurePath or None
        Path of the file.
    needs : Needs
        The project's needs for the requirements in the document.
    text : str
        The text of all segments, concatenated.
    lines : Lines
        Lines of `text`.
    code : str
        For Python, the code to parse: as long as `text`, with magics masked.
    """

    kind: DocumentKind
    segments: Sequence[TextSegment]
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

    @property
    def is_in_jupyter(self) -> bool:
        """Whether the document is part of a Jupyter notebook."""
        return self.path is not None and self.path.suffix == ".ipynb"

    def segment_at(self, offset: int) -> tuple[TextSegment, int]:
        """Return the segment with the character at `offset`, and where the segment begins."""
        number = max(bisect.bisect_right(self._starts, offset) - 1, 0)
        return self.segments[number], self._starts[number]

    def comments(self) -> Iterator[tuple[int, str]]:
        """Yield the start and the text of each comment."""
        if self.kind != "python":
            yield from ((match.start(), match.group()) for match in re.finditer("#.*", self.text))
            return
        starts = self.lines.starts
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.code, newline="").readline):
                if token.type == tokenize.COMMENT:
                    yield starts[token.start[0] - 1] + token.start[1], token.string
        except (tokenize.TokenError, SyntaxError):
            return  # the parser has accepted the code, so keep the comments found so far

    def in_file(self, in_document: _Found, file: Lines) -> _Found:
        """Return an edit or a finding with its span, line and column in the file.

        Raises
        ------
        EditError
            If the span crosses cells or covers text that is not in the file.
        """
        segment, first = self.segment_at(in_document.start)
        if segment.placement is None and in_document.stop == first > 0:  # the end of a cell
            segment, first = self.segment_at(first - 1)
        start, stop = in_document.start - first, in_document.stop - first
        if segment.placement is None or stop > len(segment.text):
            raise EditError(f"{in_document.rule} spans cells at character {in_document.start:,}")
        at, until = segment.placement.span(start, stop)
        line, column = file.place(at)
        if segment.cell is not None:
            line, column = segment.lines.place(start)
            line += segment.first_line
        changes: dict[str, Any] = {"start": at, "stop": until, "line": line, "column": column}
        if isinstance(in_document, Edit):
            changes["replacement"] = segment.placement.spell(in_document.replacement, start, stop)
        return replace(in_document, **changes, cell=segment.cell)


@dataclass(frozen=True)
class DecodedFile:
    """A file that has been decoded and split into documents.

    Attributes
    ----------
    text : str
        The whole file, decoded.
    documents : sequence of Document
        The documents that rules check; their spans refer to `text`.
    encoding : str
    prefix : bytes
        Bytes before the text, such as a byte order mark.
    broken : sequence of SourceError
        Cells that use Petastorm or MosaicML Streaming but cannot be parsed. Rules do not see their
        code.
    unparsed : int
        Number of cells that cannot be parsed, including those that use neither.
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
        """Return the bytes of the file with `text` as its new text."""
        return self.prefix + text.encode(self.encoding)


class Source(Protocol):
    """A reader for one kind of file. Each reader is a module in `mdstorm_migrate.sources`."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether this source reads a file, judging by its path and first 256 bytes."""

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return the decoded file and its documents.

        Raises
        ------
        SourceError
            If the file cannot be read. Cells of a notebook that cannot be parsed raise no error.
        """
