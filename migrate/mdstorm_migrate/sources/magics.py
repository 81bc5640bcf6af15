"""What IPython makes of a cell: its language, the file that it writes, and its magics.

Lines for IPython (``%magic``, ``!command``, ``help?``) are masked so that the rest can be parsed. A
masked line keeps its length, so all positions stay the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mdstorm_migrate.base.document import SourceError
from mdstorm_migrate.python.module import parse_python

Language: TypeAlias = Literal["python", "shell", "settings", "other"]
#: Cell magics whose cells are still Python.
_PYTHON_CELLS = frozenset(
    {"capture", "local", "memit", "prun", "pyspark", "python", "python3", "time", "timeit"}
)
_SHELL_CELLS = frozenset({"bash", "sh", "script"})
#: Languages that Databricks declares with a single percent sign.
_OTHER_CELLS = frozenset({"fs", "md", "md-sandbox", "r", "scala", "sql"})
_FIRST_LINE = re.compile(r"\s*(?P<percent>%%?)(?P<name>[\w-]+)[^\n]*\n?")
#: The first line of a cell whose text is written or appended to a file.
_WRITTEN = re.compile(
    r"""\s*%%(?:write)?file[ \t]+(?:-a[ \t]+|--append[ \t]+)?
    (?P<quote>["']?)(?P<name>[^"'\r\n]+?)(?P=quote)[ \t]*(?:\r?\n|\Z)""",
    re.VERBOSE,
)
#: Tokens needed to find the end of a line: brackets, strings, comments, line breaks.
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
        | (?:cat|cd|cp|ls|mkdir|mv|rm)[ ]+(?:\.\.|[^\s=(.,\[])[^\r\n=(]*)(?=[\r\n]|\Z)
    """,
    re.VERBOSE,
)
_NAMES = ("line", "help", "value", "plain")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)?")


@dataclass(frozen=True)
class Magic:
    """A line that IPython handles, with its continuation lines."""

    #: Where the line begins, even if the magic does not, as in ``files = !ls``.
    line: int
    stop: int


@dataclass(frozen=True)
class Masked:
    """Python code with magics masked, of the same length, and the spans of the magics."""

    code: str
    magics: tuple[Magic, ...] = ()


def language_of(cell: str) -> tuple[Language, int]:
    """Return the language of a cell, judging by its first line, and where its code begins.

    After Databricks' ``%sh``, code begins on the same line; after ``%%sh``, options follow.
    """
    match = _FIRST_LINE.match(cell)
    if match is None:
        return "python", 0
    name, is_cell = match["name"], match["percent"] == "%%"
    if name in _SHELL_CELLS:
        return "shell", match.end() if is_cell else match.end("name")
    if is_cell and name == "configure":  # configures the Spark session, in JSON
        return "settings", match.end()
    if is_cell and name not in _PYTHON_CELLS:
        return "other", match.end()
    if not is_cell and name in _OTHER_CELLS:
        return "other", match.end("name")
    return "python", 0


def written_name(cell: str) -> tuple[str, int] | None:
    """Return the name of the file that a cell writes, and where the file's text begins."""
    match = _WRITTEN.match(cell)
    return None if match is None else (match["name"], match.end())


def mask(cell: str) -> Masked:
    """Return a Python cell with its magics masked; unchanged if it is already valid Python.

    Raises
    ------
    SourceError
        If the rest cannot be parsed, with the line in the cell.
    """
    try:
        parse_python(dedented(cell))
        return Masked(cell)
    except SourceError:
        masked = _masked(cell)
    parse_python(dedented(masked.code))
    return masked


def dedented(code: str) -> str:
    """Return code that can be parsed even if the original is indented, which IPython accepts."""
    return f"{HEAD}{code}" if is_indented(code) else code


#: The line that makes an indented cell the body of a block.
HEAD = "if 1:\n"


def is_indented(code: str) -> bool:
    """Whether the first line of code begins with whitespace."""
    first = re.search(r"^[ \t]*[^\s#]", code, re.MULTILINE)
    return first is not None and first.group()[0] in " \t"


def _masked(cell: str) -> Masked:
    pieces: list[str] = []
    magics: list[Magic] = []
    position = 0
    while position < len(cell):
        magic = _MAGIC.match(cell, position)
        if magic is None:
            stop = _end_of_logical_line(cell, position)
            pieces.append(cell[position:stop])
        else:
            start = next(magic.start(name) for name in _NAMES if magic[name] is not None)
            stop = _end_of_magic(cell, start)
            pieces += [cell[position:start], blank(cell[start:stop])]
            magics.append(Magic(magic.start(), stop))
        position = stop
    return Masked("".join(pieces), tuple(magics))


def _end_of_logical_line(text: str, position: int) -> int:
    """Return the end of the line, including lines joined by brackets, strings or backslashes."""
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
    """Return the end of a magic; a backslash at the end of a line continues it."""
    while True:
        line = _LINE.match(text, position)
        assert line is not None
        content = line.group().rstrip("\r\n")
        if not content.endswith("\\") or line.end() == position or line.end() == len(text):
            return position + len(content)
        position = line.end()


def blank(text: str) -> str:
    """Return Python code that does nothing, with the same length and lines."""
    hidden = re.sub(r"[^\r\n]", "#", text)
    return re.sub(r"\A#", "0", hidden)
