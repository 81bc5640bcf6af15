"""Comments ``# TODO(mdstorm): PM107: …``, which stand for what is left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mdstorm_migrate.base.comment_places import SUFFIXES
from mdstorm_migrate.base.document import Document, Kind

#: What every such comment has in it.
MARK = "TODO(mdstorm)"
_COMMENT = re.compile(
    r"#\s*TODO\(mdstorm\):?[ \t]*(?:(?P<rule>PM\d{3})\b:?[ \t]*)?(?P<text>[^\r\n]*)"
)
#: Kinds of documents whose comments begin with something else, or that quote those of others.
_WITHOUT: frozenset[Kind] = frozenset({"kernel", "lock", "markdown", "other", "unparsed"})


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
    whole : str
        All of it, from the number sign on.
    """

    start: int
    stop: int
    rule: str | None
    text: str
    whole: str


def todo_text(rule: str, what: str) -> str:
    """Return a comment."""
    return f"# {MARK}: {rule}: {what}"


def todo_comments(document: Document) -> Iterator[TodoComment]:
    """Yield the comments of a document, in its order."""
    suffix = "" if document.path is None else document.path.suffix.lower()
    is_quoting = document.kind in _WITHOUT or (document.kind == "text" and suffix not in SUFFIXES)
    if MARK not in document.text or is_quoting or suffix == ".json":
        return
    for offset, comment in document.comments():
        match = _COMMENT.search(comment)
        if match is not None:
            whole = match.group().rstrip()
            start = offset + match.start()
            yield TodoComment(
                start, start + len(whole), match["rule"], match["text"].strip(), whole
            )
