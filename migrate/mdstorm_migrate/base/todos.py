"""Comments that ask for manual review: ``# TODO(mdstorm)``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mdstorm_migrate.base.document import Document, DocumentKind

#: The marker of comments that ask for manual review.
MARK = "TODO(mdstorm)"
#: Kinds that have no ``#`` comments, or that quote comments from other files.
_QUOTING: frozenset[DocumentKind] = frozenset({"lock", "markdown", "other", "text"})
_COMMENT = re.compile(
    r"#\s*TODO\(mdstorm\):?[ \t]*(?:(?P<rule>PM\d{3})\b:?[ \t]*)?(?P<text>[^\r\n]*)"
)
#: Kinds in which any line may have a comment above it. In other kinds, a comment could split lines
#: that belong together, so open work is listed only in the report.
COMMENTED: frozenset[DocumentKind] = frozenset(
    {"conda", "pipfile", "pyproject", "python", "requirements", "setup_cfg"}
)


@dataclass(frozen=True)
class TodoComment:
    """A ``# TODO(mdstorm)`` comment in a document.

    Attributes
    ----------
    start, stop : int
        The span in characters of the document.
    rule : str or None
        The rule's code in the comment, if it names one.
    text : str
        The instruction, without the marker.
    """

    start: int
    stop: int
    rule: str | None
    text: str


def todo_text(rule: str, what: str) -> str:
    """Return a ``# TODO(mdstorm)`` comment for a rule."""
    return f"# {MARK}: {rule}: {what}"


def todo_comments(document: Document) -> Iterator[TodoComment]:
    """Yield the ``# TODO(mdstorm)`` comments in a document, in textual order."""
    is_json = document.path is not None and document.path.suffix.lower() == ".json"
    if MARK not in document.text or is_json or document.kind in _QUOTING:
        return
    for offset, comment in document.comments():
        match = _COMMENT.search(comment)
        if match is not None:
            start = offset + match.start()
            stop = start + len(match.group().rstrip())
            yield TodoComment(start, stop, match["rule"], match["text"].strip())
