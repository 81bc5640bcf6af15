"""Notebooks that Jupytext keeps as scripts: magics are comments."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePath

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Lines
from mdstorm_migrate.base.segments import Segment, Shift
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT

#: What a cell begins with, with its title and its metadata.
_MARKER = re.compile(r"^#[ ]%%(?P<about>[^\r\n]*)(?:\r?\n)?", re.MULTILINE)
#: What the first lines of such a notebook say, if it has no such markers.
_HEADER = re.compile(r"\A(?:#[^\n]*\n)*#[ ]+jupytext:", re.MULTILINE)
_NO_CODE = re.compile(r"\[(?:markdown|md|raw)\]")
_MAGIC = re.compile(r"^#[ ]?(?P<magic>(?:!|%(?!%))\w[^\r\n]*)", re.MULTILINE)


def commented_documents(text: str, path: PurePath | None) -> Sequence[Document]:
    """Return what stands in comments of a script with cells; nothing of another one."""
    if OLD_ROOT not in text.lower() and NEW_ROOT not in text:
        return ()
    markers = list(_MARKER.finditer(text))
    if not markers and _HEADER.match(text) is None:
        return ()
    cells = [(0, 0, ""), *((one.start(), one.end(), one["about"]) for one in markers)]
    bounds = [*cells, (len(text), len(text), "")]
    found = [
        document
        for (_, start, about), (stop, _, _) in pairwise(bounds)
        for document in _documents(text, start, stop, about.strip(), path)
    ]
    strings = _strings(text) if found else []
    return [one for one in found if not any(_begins_in(one, *span) for span in strings)]


def _documents(
    text: str, start: int, stop: int, about: str, path: PurePath | None
) -> Iterator[Document]:
    """Yield the magics of a cell, but of one without code."""
    for magic in _MAGIC.finditer(text, start, stop) if not _NO_CODE.search(about) else ():
        yield Document("magic", [Segment(magic["magic"], Shift(magic.start("magic")))], path)


def _strings(text: str) -> list[tuple[int, int]]:
    """Return where strings of several lines stand; nothing if the text is not Python as a whole."""
    lines = Lines(text)
    try:
        return [
            (lines.starts[one.start[0] - 1], lines.starts[one.end[0] - 1])
            for one in tokenize.generate_tokens(io.StringIO(text, newline="").readline)
            if one.start[0] < one.end[0] and "#" in one.string
        ]
    except (tokenize.TokenError, SyntaxError):
        return []


def _begins_in(document: Document, start: int, stop: int) -> bool:
    placement = document.segments[0].placement
    return placement is not None and start < placement.span(0, 0)[0] <= stop
