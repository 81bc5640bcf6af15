"""Where a comment ``# TODO(mdstorm)`` may stand in files whose lines belong together."""

from __future__ import annotations

import re

from mdstorm_migrate.base.document import Document, Kind

#: Kinds of documents in which every line may have a comment above it.
_ANY_LINE: frozenset[Kind] = frozenset(
    {"requirements", "pyproject", "setup_cfg", "conda", "pipfile", "spark_conf"}
)
#: Other kinds that have such comments.
_COMMANDS: frozenset[Kind] = frozenset({"docker", "shell"})
#: Endings of files of other kinds that have them.
SUFFIXES = frozenset({".tf", ".tfvars", ".hcl"})
_SPACE = re.compile(r"[ \t]*")
_HEREDOC = re.compile(r"<<-?[ \t]*(?P<quote>[\"']?)(?P<word>\w+)(?P=quote)")
_QUOTE = re.compile(r"""\\.|'[^'\n]*'|"(?:\\.|[^"\\\n])*"|(?<!\S)\#[^\n]*|(?P<open>["'])""")
_BLOCK = re.compile(r"[:-][ \t]+(?:[&!]\S+[ \t]+)*[|>][-+\d]*[ \t]*(?:\#.*)?$")
#: A line of YAML that begins an entry, or a value of a list in brackets.
_ENTRY = re.compile(
    r"""[ \t]* (?: -[ \t] | -$ | [\[\]{}]
      | ["']? [\w.$/&*<-] [^\n"']* ["']? [ \t]* : (?:[ \t]|$) )""",
    re.VERBOSE | re.MULTILINE,
)


def comment_place(document: Document, start: int) -> int | None:
    """Return the beginning of the line above which a comment about a character may stand.

    None if nothing may stand there: the file has no such comments, or the character is part of a
    text that goes over several lines.
    """
    lines = document.lines
    place = lines.start_of(start)
    if document.kind in _ANY_LINE:
        return place
    suffix = "" if document.path is None else document.path.suffix.lower()
    if document.kind == "cluster" and suffix in (".yml", ".yaml"):
        return _in_yaml(document.text, place)
    if document.kind in _COMMANDS:
        return _in_commands(document, place)
    return place if document.kind == "text" and suffix in SUFFIXES else None


def _in_commands(document: Document, place: int) -> int | None:
    """Return the beginning of a command, or None inside of a quoted text or a here-document."""
    text = document.text
    if document.path is not None and document.path.suffix == ".py":
        return None  # lines of Databricks' notebooks, with `# MAGIC` before each
    place = _first_of_continued(text, place)
    for word in _HEREDOC.finditer(text, 0, place):
        end = re.compile(rf"^[ \t]*{word['word']}[ \t]*$", re.MULTILINE).search(text, word.end())
        if end is None or end.start() > place:
            # Instructions of a Dockerfile are shell; what a script writes to a file is anything.
            line = text[text.rfind("\n", 0, word.start()) + 1 : word.start()].lstrip().upper()
            return place if document.kind == "docker" and line.startswith("RUN") else None
    return None if _is_quoted(text, place) else place


def _first_of_continued(text: str, place: int) -> int:
    """Return the first of the lines that backslashes join to one, comments among them included."""
    first = place
    while place > 0:
        before = text.rfind("\n", 0, place - 1) + 1
        line = text[before : place - 1].rstrip()
        if line.endswith("\\"):
            first = before
        elif not line.lstrip().startswith("#"):
            break
        place = before
    return first


def _is_quoted(text: str, place: int) -> bool:
    """Whether a line is inside of a text in quotes that began on another one."""
    position = 0
    while match := _QUOTE.search(text, position):
        if match.start() >= place:
            return False
        position = match.end()
        if match["open"]:
            end = text.find(match["open"], position)
            if end >= place:
                return True
            position = end + 1 if end >= 0 else position
    return False


def _in_yaml(text: str, place: int) -> int | None:
    """Return the line of the entry that a line belongs to, above a block of text."""
    blocks = []
    at, depth = place, _indent(text, place)
    while at > 0:
        at = text.rfind("\n", 0, at - 1) + 1
        line = text[at : text.find("\n", at)]
        if line.strip() and _indent(text, at) < depth:
            depth = _indent(text, at)
            if _BLOCK.search(line):
                blocks.append(at)
    place = blocks[-1] if blocks else place
    while not _ENTRY.match(text, place):  # a value goes on
        if place == 0:
            return None
        place = text.rfind("\n", 0, place - 1) + 1
    return place


def _indent(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return 0 if match is None else match.end() - place
