"""Mask lines for IPython rather than Python: ``%magic``, ``!command``, ``help?``.

They are masked, so that the rest can be parsed: what is masked keeps its length, so that everything
else keeps its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mdstorm_migrate.base.document import SourceError
from mdstorm_migrate.python.module import parse_python

Language: TypeAlias = Literal["python", "shell", "settings", "other"]

#: Cell magics below which Python goes on.
_PYTHON_CELLS = frozenset(
    {"capture", "local", "memit", "prun", "pyspark", "python", "python3", "time", "timeit"}
)
_SHELL_CELLS = frozenset({"bash", "sh", "script"})
#: Databricks writes the language of a cell with one percent sign.
_OTHER_CELLS = frozenset({"fs", "md", "md-sandbox", "r", "scala", "sql"})

_FIRST_LINE = re.compile(r"\s*(?P<percent>%%?)(?P<name>[\w-]+)[^\n]*\n?")

#: A cell whose text becomes a file, or is added to one.
_WRITTEN = re.compile(
    r"""\s*%%(?:write)?file[ \t]+(?:-a[ \t]+|--append[ \t]+)?
    (?P<quote>["']?)(?P<name>[^"'\r\n]+?)(?P=quote)[ \t]*(?:\r?\n|\Z)""",
    re.VERBOSE,
)

#: Parts of a line between which brackets and strings must be told apart.
_PART = re.compile(
    r"""
      \#[^\r\n]*
    | '''.*?''' | \"\"\".*?\"\"\" | '(?:\\.|[^'\\\r\n])*' | "(?:\\.|[^"\\\r\n])*"  # strings
    | (?P<open>[(\[{]) | (?P<close>[)\]}])
    | \\(?:\r\n|\r|\n)  # a line that is joined to the next
    | (?P<newline>\r\n|\r|\n)
    | [^\#'"()\[\]{}\\\r\n]+ | .
    """,
    re.VERBOSE | re.DOTALL,
)
_MAGIC = re.compile(
    r"""
      [ \t]*(?P<line>[%!?][^\r\n]*)                            # %pip install x, !ls, ?len
    | [ \t]*(?P<help>[\w.%*]+\?{1,2})[ \t]*(?=[\r\n]|\Z)       # len?
    | [ \t]*[\w.,\ \[\]'"]+=[ \t]*(?P<value>(?:!|%\w)[^\r\n]*)   # files = !ls
    | [ \t]*(?P<plain>(?:pip3?|conda|mamba)[ ]+\w[^\r\n]*      # automagic: pip install x
        | (?:cat|cd|cp|ls|mkdir|mv|rm)[ ]+[^\s=(.,\[][^\r\n=(]*)(?=[\r\n]|\Z)
    """,
    re.VERBOSE,
)
_NAMES = ("line", "help", "value", "plain")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)?")


@dataclass(frozen=True)
class Magic:
    """A line that IPython reads, with the lines that a backslash joins to it."""

    #: Where the line begins, with the names that get what the magic returns.
    line: int
    stop: int


@dataclass(frozen=True)
class Masked:
    """Python code without magics, of the same length, and where they were."""

    code: str
    magics: tuple[Magic, ...] = ()


def language_of(cell: str) -> tuple[Language, int]:
    """Return the language of a cell by its first line, and where its code begins.

    Behind Databricks' ``%sh``, code begins on the same line; behind ``%%sh``, options stand there.
    """
    match = _FIRST_LINE.match(cell)
    if match is None:
        return "python", 0
    name, is_cell = match["name"], match["percent"] == "%%"
    if name in _SHELL_CELLS:
        return "shell", match.end() if is_cell else match.end("name")
    if is_cell and name == "configure":  # of Spark's session, in JSON
        return "settings", match.end()
    if is_cell and name not in _PYTHON_CELLS:
        return "other", match.end()
    if not is_cell and name in _OTHER_CELLS:
        return "other", match.end("name")
    return "python", 0


def written_name(cell: str) -> tuple[str, int] | None:
    """Return the name of the file that a cell writes, and where its text begins."""
    match = _WRITTEN.match(cell)
    return None if match is None else (match["name"], match.end())


def mask(cell: str) -> Masked:
    """Return a Python cell without its magics; unchanged if it is Python as it is.

    Raises
    ------
    SourceError
        If what is left does not parse, with the line of the cell.
    """
    try:
        parse_python(dedented(cell))
        return Masked(cell)
    except SourceError:
        masked = _masked(cell)
    parse_python(dedented(masked.code))
    return masked


def dedented(code: str) -> str:
    """Return code whose first statement is indented as the body of a block, as IPython takes it."""
    return f"{HEAD}{code}" if is_indented(code) else code


#: What makes an indented cell a block; it has a line of its own.
HEAD = "if 1:\n"


def is_indented(code: str) -> bool:
    """Whether the first line that holds code begins with white space."""
    first = re.search(r"^[ \t]*[^\s#]", code, re.MULTILINE)
    return first is not None and first.group()[0] in " \t"


def _masked(cell: str) -> Masked:
    pieces: list[str] = []
    magics: list[Magic] = []
    position = 0
    while position < len(cell):
        found = _MAGIC.match(cell, position)
        if found is None:
            stop = _end_of_logical_line(cell, position)
            pieces.append(cell[position:stop])
        else:
            start = next(found.start(name) for name in _NAMES if found[name] is not None)
            stop = _end_of_magic(cell, start)
            pieces += [cell[position:start], blank(cell[start:stop])]
            magics.append(Magic(found.start(), stop))
        position = stop
    return Masked("".join(pieces), tuple(magics))


def _end_of_logical_line(text: str, position: int) -> int:
    """Return where the line ends, counting those that brackets, strings or backslashes join."""
    depth = 0
    while position < len(text):
        part = _PART.match(text, position)
        assert part is not None
        position = part.end()
        if part["newline"] and depth <= 0:
            break
        depth += bool(part["open"]) - bool(part["close"])
    return position


def _end_of_magic(text: str, position: int) -> int:
    """Return where a magic ends: a backslash at the end of a line goes on."""
    while True:
        line = _LINE.match(text, position)
        assert line is not None
        content = line.group().rstrip("\r\n")
        if not content.endswith("\\") or line.end() == position or line.end() == len(text):
            return position + len(content)
        position = line.end()


def blank(text: str) -> str:
    """Return what is Python and does nothing, of the same length and lines."""
    hidden = re.sub(r"[^\r\n]", "#", text)
    return re.sub(r"\A#", "0", hidden)
