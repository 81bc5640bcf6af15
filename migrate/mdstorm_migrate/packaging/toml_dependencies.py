"""Edits to dependencies that are keys of tables in TOML, as in Poetry, Pixi and Pipenv."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging import rewriting
from mdstorm_migrate.packaging.requirement import Requirement, is_local_version
from mdstorm_migrate.packaging.toml import TomlKey, toml_keys, toml_strings, value_of

_STRING = re.compile(r"""[ \t]*(["'])(?P<version>[^"']*)\1""")
_VERSION = re.compile(r"""\bversion[ \t]*=[ \t]*(["'])(?P<version>[^"']*)\1""")
_EXTRAS = re.compile(r"""\bextras[ \t]*=[ \t]*\[(?P<extras>[^\]]*)\]""")
#: When a dependency is installed: if it is wanted, or on which platforms and Pythons.
_CONDITION = re.compile(
    r"""\b(?:optional|markers|python\w*|platform\w*|sys_platform|os_name|implementation_\w+)
    [ \t]*=[ \t]*(?:"[^"\n]*"|'[^'\n]*'|true\b)""",
    re.VERBOSE,
)
_ORIGIN = re.compile(r"\b(git|path|url|file)[ \t]*=")
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
            conditions = _CONDITION.findall(value)
            yield from _add_dependencies(document, key, rule, items, conditions)
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
    if _ORIGIN.search(value):
        return True
    versions = [_STRING.match(value), *_VERSION.finditer(value)]
    return any(is_local_version(one["version"]) for one in versions if one is not None)


def _add_dependencies(
    document: Document, key: TomlKey, rule: str, items: list[str], conditions: Sequence[str] = ()
) -> Iterator[Edit | Finding]:
    """Yield the edit that adds dependencies on separate lines above a key, or a finding.

    Each has the same conditions.
    """
    if not items:
        return
    if key.is_table:
        names = ", ".join(f"`{name}`" for name in items)
        found = Requirement(key.start, key.stop)
        what, remedy = f"the code also needs {names}", f"require {names} as well"
        yield rewriting.manual(found, rule, what, remedy)
        return
    line = document.lines.start_of(key.start)
    keys = (_as_key(item, conditions) for item in items)
    lines = "".join(f"{one}{document.lines.newline}" for one in keys)
    yield Edit(rule, "exact", line, line, lines, rewriting.NEEDED, topic="install")


def _as_key(requirement: str, conditions: Iterable[str]) -> str:
    """Return a requirement as a line in a table."""
    match = re.fullmatch(r"([\w.-]+)(?:\[(.*)\])?(.*)", requirement)
    assert match is not None
    name, extras, version = match[1], match[2], match[3] or "*"
    more = f", extras = [{_listed(extras.split(','))}]" if extras else ""
    more += "".join(f", {one}" for one in conditions)
    return f'{name} = {{version = "{version}"{more}}}' if more else f'{name} = "{version}"'


def _names_in(extras: str) -> list[str]:
    return re.findall(r"""["']([^"']+)["']""", extras)


def _listed(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
