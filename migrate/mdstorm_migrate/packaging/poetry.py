"""Dependencies written as keys of a TOML table, as in Poetry and Pipenv."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.requirement import mdstorm_extras, other_origins
from mdstorm_migrate.packaging.toml_text import TomlKey, toml_keys, toml_strings

_MESSAGE = "require mdstorm; version numbers of Petastorm do not apply to it"
_STRING = re.compile(r"""[ \t]*(["'])(?P<version>[^"']*)\1""")
_VERSION = re.compile(r"""\bversion[ \t]*=[ \t]*(["'])(?P<version>[^"']*)\1""")
_EXTRAS = re.compile(r"""\bextras[ \t]*=[ \t]*\[(?P<extras>[^\]]*)\]""")
_BRACKET = re.compile(r"""[\[\]]|"[^"\n]*"|'[^'\n]*'|\#[^\n]*""")
_ORIGIN = re.compile(r"""\b(git|path|url|file|ref)[ \t]*=""")


def rewrite_dependency(text: str, key: TomlKey, rule: str) -> Iterator[Edit | Finding]:
    """Yield the edits of a dependency: its name, any version, the extras that have counterparts.

    The value may be a version, an inline table, or a table of its own.
    """
    is_table = key.value_start == key.value_stop
    start, stop = (
        key.value_start,
        _end_of_table(text, key.value_stop) if is_table else key.value_stop,
    )
    if text[start:stop].lstrip().startswith("["):
        stop = _end_of_array(text, start)
    value = text[start:stop]
    if _ORIGIN.search(value):
        if any(other_origins(value, rule)):
            return  # of which `other_origins` speaks, for the whole file
        yield Finding(
            rule,
            "manual",
            key.start,
            key.stop,
            "Petastorm comes from a repository or a path, perhaps with changes of its own",
            "require mdstorm, after a review of what was changed",
        )
        return
    yield Edit(rule, "exact", key.start, key.stop, "mdstorm", _MESSAGE)
    plain = _STRING.match(value)
    for version in [plain] if plain else _VERSION.finditer(value):
        if version["version"] != "*":
            at, end = (start + place for place in version.span("version"))
            yield Edit(rule, "exact", at, end, "*", "allow any version of mdstorm")
    for extras in _EXTRAS.finditer(value):
        names = re.findall(r"""["']([^"']+)["']""", extras["extras"])
        kept = ", ".join(f'"{name}"' for name in mdstorm_extras(names))
        first, last = extras.span("extras")
        if kept != extras["extras"].strip():
            yield Edit(rule, "exact", start + first, start + last, kept, "name mdstorm's extras")


def rewrite_extras(text: str, rule: str) -> Iterator[Edit]:
    """Yield the edits of ``[tool.poetry.extras]``, whose strings are names of dependencies."""
    for string in toml_strings(text):
        if string.table == "tool.poetry.extras" and string.value.lower() == "petastorm":
            yield Edit(rule, "exact", string.start, string.stop, "mdstorm", "follow the dependency")


def _end_of_array(text: str, start: int) -> int:
    """Return where the array that begins at `start`, or behind white space, ends."""
    depth = 0
    for part in _BRACKET.finditer(text, start):
        depth += {"[": 1, "]": -1}.get(part.group(), 0)
        if depth == 0:
            return part.end()
    return len(text)


def _end_of_table(text: str, start: int) -> int:
    """Return where the table that begins at `start` ends: at the next one."""
    following = (key.start for key in toml_keys(text) if key.start > start and _is_table(text, key))
    return next(following, len(text))


def _is_table(text: str, key: TomlKey) -> bool:
    return text[text.rfind("\n", 0, key.start) + 1 : key.start].lstrip().startswith("[")
