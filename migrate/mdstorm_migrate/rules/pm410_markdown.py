"""PM410: code in Markdown and reStructuredText, which is reported and never changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Finding, Topic

CODE = "PM410"
TITLE = "Documentation shows code that uses Petastorm"
CLASS: Class = "note"
KIND = "markdown"

_FENCE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<code>.*?)^[ \t]*(?P=fence)", re.M | re.S
)
_DIRECTIVE = re.compile(
    r"""^(?P<indent>[ \t]*) (?: \.\.[ ]code(?:-block)?::[^\n]* | .*:: ) \n
    (?P<code> (?: \n | (?P=indent)[ \t]+[^\n]*\n? )+ )""",
    re.MULTILINE | re.VERBOSE,
)
#: Examples outside of blocks.
_DOCTEST = re.compile(r"^[ \t]*>>>[ \t](?P<code>[^\n]*)", re.MULTILINE)
#: Commands and imports in blocks of Markdown that are only indented.
_INDENTED = re.compile(
    r"""^(?:[ ]{4,}|\t)
    (?P<code>(?:\$[ ])?(?:python[\d.]*[ ]-[cm]|pip[\d.]*|from|import|petastorm)(?![\w/])[^\n]*)""",
    re.MULTILINE | re.VERBOSE,
)
_USE = re.compile(
    r"""(?:^[ \t>]*|["';][ \t]*)(?:from|import)[ \t]+petastorm\b | \bpetastorm\.\w
    | (?<![\w/.-])petastorm(?:\[[\w,-]*\])?[ \t]*[=<>~!]=
    | (?:(?<![\w/.-])|(?<=bin/))petastorm-[a-z-]+\.py\b
    | \bpip[\d.]*[ \t]+install\b[^\n]*\bpetastorm\b""",
    re.MULTILINE | re.VERBOSE,
)

#: What tools that make pages of docstrings resolve: mkdocstrings, roles and directives of Sphinx.
_RESOLVED = re.compile(
    r"""^[ \t]*:::[ \t]+(?P<mkdocs>petastorm\b[\w.]*)
    | \{?:?(?:\w+:)?\w+[:}]`(?:[^`<\n]*<)?[~!]?(?P<role>petastorm\b[\w.]*)(?:\(\))?>?`
    | ^[ \t]*(?:\.\.[ ]|`{3,}\{|:{3,}\{)(?:\w+:)?
      (?:auto\w+|(?:current)?module)(?:::|\})[ \t]+(?P<directive>petastorm\b[\w.]*)""",
    re.MULTILINE | re.VERBOSE,
)
_AUTO = re.compile(r"[ :{]auto\w+(?:::|\})")
_BLOCKS = (_FENCE, _DIRECTIVE, _DOCTEST, _INDENTED)


def check(document: Document) -> Iterator[Finding]:
    """Yield one finding for each block of code, and for each example outside of blocks."""
    if document.path is not None and document.path.suffix == ".ipynb":
        return  # PM100 speaks of the cell
    end = 0
    found = (block for blocks in _BLOCKS for block in blocks.finditer(document.text))
    for block in sorted(found, key=lambda block: block.start()):
        if block.start() >= end:
            end = block.end()
            use = _USE.search(block["code"])
            if use is not None:
                start = block.start("code") + use.start()
                stop = block.start("code") + use.end()
                yield Finding(CODE, "note", start, stop, "this code uses Petastorm")
    for one in _RESOLVED.finditer(document.text):
        group = one.lastgroup or ""
        is_made = group == "mkdocs" or (group == "directive" and _AUTO.search(one[0]))
        said = "is made of the docstrings of" if is_made else "takes what it says from"
        what = f"this page {said} `{one[group]}`"
        topic: Topic | None = "docstrings" if is_made else None
        yield Finding(CODE, "note", *one.span(group), what, topic=topic)
