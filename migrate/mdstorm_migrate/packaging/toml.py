"""Requirements in TOML: the positions of strings and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mdstorm_migrate.base.document import Document

_VALUES = r"""
    \"\"\"(?:[^\\]|\\.)*?\"\"\" | '''.*?'''
  | "(?P<basic>(?:[^"\\\n]|\\.)*)" | '(?P<literal>[^'\n]*)'
  | \#[^\n]*
  | (?P<open>[\[{]) | (?P<close>[\]}])
"""
#: The text that may occur inside an array or an inline table.
_INSIDE = re.compile(_VALUES, re.VERBOSE | re.DOTALL)
_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_TOKEN = re.compile(
    rf"""
    ^[ \t]*\[{{1,2}} (?P<table>[^\[\]\n]+) \]{{1,2}}
  | ^[ \t]*(?P<key>{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*)[ \t]*=
  | {_VALUES}
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)

_BRACKET = re.compile(r"""[\[\]]|"[^"\n]*"|'[^'\n]*'|\#[^\n]*""")


@dataclass(frozen=True)
class Setting:
    """A text in a file of settings: a single-line string in TOML, or a value in INI.

    Attributes
    ----------
    section, key : str
        The table or section, and the last key that began a line: the key of the text or of its
        array. The name of an INI section has an empty key.
    start, stop : int
        The span in characters: between the quotes in TOML, with continuation lines in INI.
    """

    section: str
    key: str
    start: int
    stop: int


@dataclass(frozen=True)
class TomlKey:
    """A key at the beginning of a line, or the last part of a table's name.

    Attributes
    ----------
    table : str
        The table that contains the key.
    name : str
        Without quotes.
    start, stop : int
        The span of the name, in characters.
    value_start, value_stop : int
        The span from the equals sign to the end of the line; empty for a table.
    """

    table: str
    name: str
    start: int
    stop: int
    value_start: int
    value_stop: int

    @property
    def is_table(self) -> bool:
        """Whether this is the name of a table, and its value therefore the lines below it."""
        return self.value_start == self.value_stop


def toml_strings(text: str) -> Iterator[Setting]:
    """Yield the single-line strings, except those that are parts of keys."""
    table = key = ""
    for match in _tokens(text):
        found = match.groupdict()
        if found.get("table") is not None:
            table, key = _unquoted(match["table"]), ""
        elif found.get("key") is not None:
            key = _unquoted(match["key"])
        else:
            strings = (one for one in ("basic", "literal") if match[one] is not None)
            yield from (Setting(table, key, *match.span(one)) for one in strings)


def toml_keys(text: str) -> Iterator[TomlKey]:
    """Yield the keys; a table counts as a key of its parent table."""
    table = ""
    for match in _tokens(text):
        found = match.groupdict()
        if found.get("table") is not None:
            table = _unquoted(match["table"])
            above, _, name = table.rpartition(".")
            start = match.start("table") + match["table"].rfind(name)
            yield TomlKey(above, name, start, start + len(name), match.end(), match.end())
        elif found.get("key") is not None:
            name = _unquoted(match["key"])
            start = match.start("key") + match["key"].find(name)
            end = text.find("\n", match.end())
            stop = len(text) if end < 0 else end
            yield TomlKey(table, name, start, start + len(name), match.end(), stop)


def value_of(text: str, key: TomlKey) -> tuple[int, int]:
    """Return the span of a key's value, which may be a separate table."""
    if key.is_table:
        return key.value_start, _end_of_table(text, key.value_stop)
    if text[key.value_start : key.value_stop].lstrip().startswith("["):
        return key.value_start, _end_of_array(text, key.value_start)
    return key.value_start, key.value_stop


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield the tables and keys, and the tokens of values.

    A line inside an array is neither a key nor a table, even if it looks like one.
    """
    position = depth = 0
    while match := (_INSIDE if depth else _TOKEN).search(text, position):
        position = match.end()
        depth = max(depth + bool(match["open"]) - bool(match["close"]), 0)
        yield match


def _unquoted(name: str) -> str:
    return name.replace('"', "").replace("'", "").strip()


def _end_of_array(text: str, start: int) -> int:
    """Return the end of the array that begins at `start`, after any whitespace."""
    depth = 0
    for part in _BRACKET.finditer(text, start):
        depth += {"[": 1, "]": -1}.get(part.group(), 0)
        if depth == 0:
            return part.end()
    return len(text)


def _end_of_table(text: str, start: int) -> int:
    """Return the end of the table that begins at `start`, which is where the next table begins."""
    following = (key.start for key in toml_keys(text) if key.is_table and key.start > start)
    return next(following, len(text))


#: Tables whose strings are requirements, with the keys that hold them, or None for all keys.
_REQUIREMENTS: tuple[tuple[str, str | None], ...] = (
    (r"", "dependencies"),  # in a script's metadata, see PEP 723
    (r"project", r"dependencies|optional-dependencies\..*"),
    (r"project\.optional-dependencies", None),
    (r"dependency-groups", None),
    (r"build-system", "requires"),
    (r"(tool\.tox\.)?(env_run_base|env\..+)", "deps"),
    (r"(tool\.hatch\.)?envs\..*", r"(.*\.)?(set-)?(extra-)?dependencies"),
    (r"tool\.(pdm|rye|uv)(?!\.scripts)(\..*)?", "(dev-|override-|constraint-)?dependencies|[a-z]+"),
)
_TABLES = re.compile(
    r"tool\.(poetry\.((dev-)?dependencies|group\..+\.dependencies)|pdm\.resolution\.overrides)"
    r"|(?:.+\.)?pypi-dependencies|(?:dev-)?packages"
)
#: Tables of Pixi whose packages conda installs.
_CONDA_TABLES = re.compile(r"(?:tool\.pixi\.)?(?:.+\.)?(?:build-|host-|run-)?dependencies")
#: Precedes the name of a dependency group, which is a string but not a requirement.
_INCLUDED = re.compile(r"""\binclude-group["']?[ \t]*=[ \t]*\Z""")


def requirement_strings(text: str) -> Iterator[Setting]:
    """Yield the strings that may be requirements, as in PEP 621, PEP 735, Hatch, PDM and uv."""
    for string in toml_strings(text):
        is_group = _INCLUDED.search(text, max(string.start - 40, 0), string.start - 1) is not None
        if not is_group and _holds_requirements(string):
            yield string


def is_constraint(name: str) -> bool:
    """Whether what a key or a table lists only constrains what other requirements install."""
    return name.startswith("constraint") or is_override(name)


def is_override(name: str) -> bool:
    """Whether a key or a table lists what replaces other requirements, with their extras."""
    return name.startswith("override") or name.endswith(".overrides")


def dependency_keys(text: str) -> Iterator[TomlKey]:
    """Yield the keys that are names of dependencies, as in Poetry, Pixi and Pipenv."""
    return (key for key in toml_keys(text) if _TABLES.fullmatch(key.table))


def conda_keys(document: Document) -> Iterator[TomlKey]:
    """Yield the keys that are names of packages that Pixi installs by conda."""
    is_pixi = document.path is not None and document.path.name == "pixi.toml"
    for key in toml_keys(document.text):
        is_table = _CONDA_TABLES.fullmatch(key.table) is not None
        if is_table and (is_pixi or key.table.startswith("tool.pixi.")):
            yield key


def _holds_requirements(string: Setting) -> bool:
    return any(
        re.fullmatch(table, string.section) and (key is None or re.fullmatch(key, string.key))
        for table, key in _REQUIREMENTS
    )
