"""Dependencies written as keys of a TOML table, as in Poetry and Pipenv."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.bounds import PYTHON, conflicts, normalised
from mdstorm_migrate.packaging.origins import other_origins
from mdstorm_migrate.packaging.own_extras import extra_names, extras_in, lost_with
from mdstorm_migrate.packaging.requirement import (
    COPY,
    is_for_old_python,
    is_of_copy,
)
from mdstorm_migrate.packaging.rewriting import FOR_OLD_PYTHON, requirement_of, verdict
from mdstorm_migrate.packaging.toml_text import TomlKey, toml_keys, toml_strings, value_of
from mdstorm_migrate.packaging.upper_bounds import WORDS

_STRING = re.compile(r"""[ \t]*(["'])(?P<version>[^"']*)\1""")
_VERSION = re.compile(r"""\bversion[ \t]*=[ \t]*(["'])(?P<version>[^"']*)\1""")
_INLINE = re.compile(r"\{[^}\n]*\}")
_PYTHON = re.compile(r"""\bpython[ \t]*=[ \t]*(["'])(?P<python>[^"'\n]*)\1""")
_MARKERS = re.compile(r"""\bmarkers[ \t]*=[ \t]*(?:"(?P<basic>(?:[^"\\\n]|\\.)*)"|'([^'\n]*)')""")
_URL = re.compile(r"""[ \t]*["'](?:[\w+.-]+://|file:)""")
_ORIGIN = re.compile(r"""\b(git|path|url|file|ref)[ \t]*=""")


def rewrite_dependency(document: Document, key: TomlKey, rule: str) -> Iterator[Edit | Finding]:
    """Yield the edits of a dependency: its name, any version, the extras that have counterparts.

    The value may be a version, an inline table, or a table of its own.
    """
    text, needs = document.text, document.needs
    start, stop = value_of(text, key)
    value = text[start:stop]
    if is_from_elsewhere(text, key):
        yield from _from_elsewhere(value, key, rule)
        return
    if _is_for_old_python(value):
        remedy = f"{FOR_OLD_PYTHON}: remove it, or require mdstorm for Python {PYTHON} and newer"
        span = key.start, key.stop
        yield Finding(rule, "manual", *span, FOR_OLD_PYTHON, remedy, topic="install")
        return
    is_table = key.value_start == key.value_stop
    names = [name for extras in extras_in(value) for name in extra_names(extras)]
    beside = lost_with(needs.beside, names)
    if needs.importers:
        message = f"Petastorm stays: {needs.who_stays} it"
        if needs.are_beside:
            message += f", and it works with {WORDS} alone"
        yield Finding(rule, "note", key.start, key.stop, message)
        if needs.moved and not any(one.name == "mdstorm" for one in toml_keys(text)):
            items = [requirement_of(document, names), *beside, *_bounds(document)]
            yield from _beside(document, key, rule, items)
        return
    cls, message = verdict(document)
    yield Edit(rule, cls, key.start, key.stop, "mdstorm", message, topic="install")
    plain = _STRING.match(value)
    # PDM puts what follows a name behind it.
    wanted = needs.wanted.version or (">=0" if key.table.startswith("tool.pdm.") else "*")
    named = list(extras_in(value))
    for extras in named:
        kept = ", ".join(f'"{name}"' for name in _extras(document, extra_names(extras)))
        first, last = extras.span("extras")
        if kept != extras["extras"].strip():
            yield Edit(rule, cls, start + first, start + last, kept, "name mdstorm's extras")
    added = [] if named else _extras(document, [])
    listed = ", ".join(f'"{name}"' for name in added)
    if plain and added:
        at, end = (start + plain.start(1), start + plain.end())
        new = f'{{version = "{wanted}", extras = [{listed}]}}'
        yield Edit(rule, cls, at, end, new, "name the extras that the code needs")
    else:
        for version in [plain] if plain else _VERSION.finditer(value):
            at, end = (start + place for place in version.span("version"))
            if added and version is not plain:
                gap = f"{document.lines.newline}extras = " if is_table else ", extras = "
                new = f"{wanted}{version[1]}{gap}[{listed}]"
                yield Edit(rule, cls, at, end + 1, new, "name the extras that the code needs")
            elif version["version"] != wanted:
                yield Edit(rule, cls, at, end, wanted, "allow any version of mdstorm")
    yield from _beside(document, key, rule, beside)


def _bounds(document: Document) -> tuple[str, ...]:
    """Return what Petastorm needs beside mdstorm, unless a key has a name of it: either or none."""
    bounds = document.needs.bounds
    own = {normalised(one.name) for one in toml_keys(document.text)}
    return () if any(one.partition("<")[0] in own for one in bounds) else bounds


def is_from_elsewhere(text: str, key: TomlKey) -> bool:
    """Whether a dependency comes from a repository, a folder or a URL, or is a changed copy."""
    start, stop = value_of(text, key)
    value = text[start:stop]
    return bool(_ORIGIN.search(value) or _URL.match(value) or _is_copy(value))


def _is_copy(value: str) -> bool:
    """Whether a version of it is that of a changed copy: ``"0.11.4+acme"``."""
    named = [_STRING.match(value), *_VERSION.finditer(value)]
    return any(is_of_copy(one["version"]) for one in named if one is not None)


def _is_for_old_python(value: str) -> bool:
    """Whether a dependency is one of Pythons alone that mdstorm does not run on."""
    for constraint in _INLINE.findall(value) or [value]:
        python, markers = _PYTHON.search(constraint), _MARKERS.search(constraint)
        is_old = python is not None and conflicts(python["python"], PYTHON, "poetry")
        if not is_old and not (
            markers and is_for_old_python(f"; {markers['basic'] or markers[2]}")
        ):
            return False
    return True


def _from_elsewhere(value: str, key: TomlKey, rule: str) -> Iterator[Finding]:
    if any(other_origins(value, rule)):
        return  # of which `other_origins` speaks, for the whole file
    yield Finding(
        rule,
        "manual",
        key.start,
        key.stop,
        "Petastorm comes from a repository or a path, perhaps with changes of its own"
        if not _is_copy(value)
        else COPY,
        "require mdstorm, after a review of what was changed",
        topic="install",
    )


def _beside(
    document: Document, key: TomlKey, rule: str, items: list[str]
) -> Iterator[Edit | Finding]:
    """Yield what puts other dependencies on lines of their own, above one."""
    if not items:
        return
    cls, _ = verdict(document)
    if key.value_start == key.value_stop:
        names = ", ".join(f"`{name}`" for name in items)
        what = f"the code also needs {names}"
        yield Finding(rule, "manual", key.start, key.stop, what, f"require {names} as well")
        return
    line = document.lines.start_of(key.start)
    lines = [f"{_as_key(item)}{document.lines.newline}" for item in items]
    message = "require what came in through Petastorm, and what the code needs"
    yield Edit(rule, cls, line, line, "".join(lines), message, topic="install")


def _as_key(requirement: str) -> str:
    """Return a requirement as a line of a table."""
    match = re.fullmatch(r"([\w.-]+)(?:\[(.*)\])?(.*)", requirement)
    assert match is not None
    name, extras, version = match[1], match[2], match[3] or "*"
    if not extras:
        return f'{name} = "{version}"'
    listed = ", ".join(f'"{one}"' for one in extras.split(","))
    return f'{name} = {{version = "{version}", extras = [{listed}]}}'


def _extras(document: Document, names: list[str]) -> list[str]:
    """Return mdstorm's extras in place of some of Petastorm's."""
    match = re.search(r"\[(.*)\]", requirement_of(document, names))
    return match[1].split(",") if match else []


def rewrite_extras(text: str, rule: str) -> Iterator[Edit]:
    """Yield the edits of ``[tool.poetry.extras]``, whose strings are names of dependencies."""
    for string in toml_strings(text):
        if string.table == "tool.poetry.extras" and string.value.lower() == "petastorm":
            yield Edit(rule, "exact", string.start, string.stop, "mdstorm", "follow the dependency")
