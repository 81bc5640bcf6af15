"""Requirements in TOML: the positions of strings and keys, and edits to Poetry's tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging import rewriting
from mdstorm_migrate.packaging.requirement import Requirement, is_local_version

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


_STRING = re.compile(r"""[ \t]*(["'])(?P<version>[^"']*)\1""")
_VERSION = re.compile(r"""\bversion[ \t]*=[ \t]*(["'])(?P<version>[^"']*)\1""")
_EXTRAS = re.compile(r"""\bextras[ \t]*=[ \t]*\[(?P<extras>[^\]]*)\]""")
_OPTIONAL = re.compile(r"\boptional[ \t]*=[ \t]*true\b")
_URL = re.compile(r"""[ \t]*["'](?:[\w+.-]+://|file:)""")
_ORIGIN = re.compile(r"""\b(git|path|url|file|ref)[ \t]*=""")
_OLD_PYTHON = re.compile(
    r"""\bpython(?:_version[ ]*|[ \t]*=[ \t]*["'])<[ ]*["']?3\.(?:\d|10)["']"""
)
_NEEDED = "add the extras that the code needs"


def rewrite_dependency(document: Document, key: TomlKey, rule: str) -> Iterator[Edit | Finding]:
    """Yield edits to a dependency: its name, its version, and extras that have a counterpart.

    The value may be a version, an inline table, or a separate table.
    """
    text, needs = document.text, document.needs
    start, stop = value_of(text, key)
    value = text[start:stop]
    names = [name for extras in _EXTRAS.finditer(value) for name in _names_in(extras["extras"])]
    is_old = _OLD_PYTHON.search(value) is not None
    found = Requirement(key.start, key.stop, is_copy=_is_copy(value), is_old=is_old)
    refused = rewriting.refusal(document, found, rule)
    if refused is not None:
        yield refused
        return
    transitive = rewriting.brought_in_by(needs.transitive, names)
    is_named = any((one.table, one.name) == (key.table, "mdstorm") for one in toml_keys(text))
    if needs.importers:
        yield Finding(rule, "note", key.start, key.stop, needs.why_petastorm_stays)
        if needs.moved and not is_named:
            items = [rewriting.requirement_of(document, names), *transitive]
            is_optional = _OPTIONAL.search(value) is not None
            yield from _add_dependencies(document, key, rule, items, is_optional=is_optional)
        return
    if is_named or needs.is_override:
        line_of = document.lines.start_of
        end = line_of(stop) if key.is_table else text.find("\n", stop) + 1 or len(text)
        yield Edit(
            rule,
            "exact",
            line_of(key.start),
            end,
            "",
            rewriting.why_removed(document),
            topic="install",
        )
        return
    yield Edit(rule, "exact", key.start, key.stop, "mdstorm", rewriting.MESSAGE, topic="install")
    yield from _value_edits(document, key, rule, start, value)
    yield from _add_dependencies(document, key, rule, transitive)


def rewrite_extras(document: Document, rule: str) -> Iterator[Edit]:
    """Yield edits to ``[tool.poetry.extras]``, whose strings are names of dependencies."""
    text, stays = document.text, document.needs.importers
    for string in toml_strings(text):
        name = text[string.start : string.stop].lower()
        if string.section == "tool.poetry.extras" and name == "petastorm":
            quote = text[string.stop]
            new = f"mdstorm{quote}, {quote}" if stays else "mdstorm"
            stop = string.start if stays else string.stop
            yield Edit(rule, "exact", string.start, stop, new, "follow the dependency")


def _value_edits(
    document: Document, key: TomlKey, rule: str, start: int, value: str
) -> Iterator[Edit]:
    """Yield edits to the version and the extras in a value that begins at `start`."""
    plain = _STRING.match(value)
    # PDM appends the value to the name.
    anything = ">=0" if key.table.startswith("tool.pdm.") else "*"
    wanted = document.needs.wanted.version or anything
    named = list(_EXTRAS.finditer(value))
    for extras in named:
        kept = _listed(rewriting.extras_of(document, _names_in(extras["extras"])))
        first, last = extras.span("extras")
        if kept != extras["extras"].strip():
            yield Edit(rule, "exact", start + first, start + last, kept, "use mdstorm's extras")
    added = _listed([] if named else rewriting.extras_of(document, []))
    if plain and added:
        at, end = start + plain.start(1), start + plain.end()
        new = f'{{version = "{wanted}", extras = [{added}]}}'
        yield Edit(rule, "exact", at, end, new, _NEEDED)
        return
    for version in [plain] if plain else _VERSION.finditer(value):
        at, end = (start + place for place in version.span("version"))
        if added:
            gap = f"{document.lines.newline}extras = " if key.is_table else ", extras = "
            new = f"{wanted}{version[1]}{gap}[{added}]"
            yield Edit(rule, "exact", at, end + 1, new, _NEEDED)
        elif version["version"] != wanted:
            yield Edit(rule, "exact", at, end, wanted, "allow any version of mdstorm")


def _is_copy(value: str) -> bool:
    """Whether a dependency comes from a repository, folder or URL, or is a modified copy."""
    if _ORIGIN.search(value) or _URL.match(value):
        return True
    versions = [_STRING.match(value), *_VERSION.finditer(value)]
    return any(is_local_version(one["version"]) for one in versions if one is not None)


def _add_dependencies(
    document: Document, key: TomlKey, rule: str, items: list[str], *, is_optional: bool = False
) -> Iterator[Edit | Finding]:
    """Yield the edit that adds dependencies on separate lines above a key, or a finding."""
    if not items:
        return
    if key.is_table:
        names = ", ".join(f"`{name}`" for name in items)
        found = Requirement(key.start, key.stop)
        what, remedy = f"the code also needs {names}", f"require {names} as well"
        yield rewriting.manual(found, rule, what, remedy)
        return
    line = document.lines.start_of(key.start)
    keys = (_as_key(item, is_optional=is_optional) for item in items)
    lines = "".join(f"{one}{document.lines.newline}" for one in keys)
    yield Edit(rule, "exact", line, line, lines, rewriting.NEEDED, topic="install")


def _as_key(requirement: str, *, is_optional: bool) -> str:
    """Return a requirement as a line in a table."""
    match = re.fullmatch(r"([\w.-]+)(?:\[(.*)\])?(.*)", requirement)
    assert match is not None
    name, extras, version = match[1], match[2], match[3] or "*"
    more = f", extras = [{_listed(extras.split(','))}]" if extras else ""
    more += ", optional = true" if is_optional else ""
    return f'{name} = {{version = "{version}"{more}}}' if more else f'{name} = "{version}"'


def _names_in(extras: str) -> list[str]:
    return re.findall(r"""["']([^"']+)["']""", extras)


def _listed(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
