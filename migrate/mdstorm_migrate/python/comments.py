"""Comments of a document, in Python and in other files whose comments begin with ``#``."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document

__all__ = ["comments"]


def comments(document: Document) -> Iterator[tuple[int, str]]:
    """Yield where each comment begins, and its text."""
    if document.kind != "python":
        yield from ((match.start(), match.group()) for match in re.finditer("#.*", document.text))
        return
    starts = document.lines.starts
    try:
        for token in tokenize.generate_tokens(io.StringIO(document.code, newline="").readline):
            if token.type == tokenize.COMMENT:
                yield starts[token.start[0] - 1] + token.start[1], token.string
    except (tokenize.TokenError, SyntaxError):
        return  # the parser has accepted it: what has been seen so far counts
