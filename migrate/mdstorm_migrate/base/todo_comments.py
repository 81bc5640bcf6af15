"""Comments ``# TODO(mdstorm): PM107: …``, which stand for what is left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mdstorm_migrate.base.document import Document, Kind

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
