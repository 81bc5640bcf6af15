"""PM410: code in Markdown and reStructuredText, which is reported but never changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.rules.rule import rule

CODE = "PM410"

_FENCE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<code>.*?)(?:^[ \t]*(?P=fence)|\Z)", re.M | re.S
)
_DIRECTIVE = re.compile(
    r"""^(?P<indent>[ \t]*) (?: \.\.[ ](?:source)?code(?:-block)?::[^\n]* | .*:: ) [ \t\r]*\n
    (?P<code> (?: [ \t\r]*\n | (?P=indent)[ \t]+[^\n]*\n? )+ )""",
    re.MULTILINE | re.VERBOSE,
)
#: Examples and commands outside of code blocks.
_LINE = re.compile(
    r"""^(?: [ \t]*>>>[ \t] | (?:[ ]{4,}|\t)(?=(?:\$[ ])?(?:python|pip|from|import)\b) )
    (?P<code>[^\n]*)""",
    re.MULTILINE | re.VERBOSE,
)
#: A command in a sentence.
_INLINE = re.compile(r"`(?P<code>[^`\n]*\bpip[\d.]*[ \t]+install\b[^`\n]*)`")
_USE = re.compile(
    r"""(?:^[ \t>]*|["';][ \t]*)(?:from|import)[ \t]+petastorm\b | \bpetastorm\.\w
    | \bpetastorm[ \t]+import\b
    | (?<![\w/.-])petastorm(?:\[[\w,-]*\])?[ \t]*[=<>~!]=
    | \bpip[\d.]*[ \t]+install\b[^\n]*\bpetastorm\b""",
    re.MULTILINE | re.VERBOSE,
)


@rule(CODE, "Documentation shows code that uses Petastorm", "note", "markdown")
def check(document: Document) -> Iterator[Finding]:
    """Yield one finding for each block of code, and for each example outside of blocks."""
    if document.is_in_jupyter:
        return  # PM100 reports the cell
    end = 0
    is_rst = document.path is not None and document.path.suffix.lower() == ".rst"
    # In reStructuredText, a line of tildes underlines a title.
    patterns = [*([] if is_rst else [_FENCE]), _DIRECTIVE, _LINE, _INLINE]
    found = (one for pattern in patterns for one in pattern.finditer(document.text))
    for block in sorted(found, key=lambda block: block.start()):
        if block.start() < end:
            continue
        end = block.end()
        use = _USE.search(block["code"])
        if use is not None:
            start = block.start("code")
            span = start + use.start(), start + use.end()
            yield Finding(CODE, "note", *span, "this code uses Petastorm")
