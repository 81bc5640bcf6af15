"""What ``pyproject.toml`` and ``tox.toml`` say of tox: an INI file in a string, or tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.packaging.ini_text import ini_values
from mdstorm_migrate.packaging.pin import PYTHON, Pin
from mdstorm_migrate.packaging.toml_text import toml_strings

_LEGACY = re.compile(
    r"""^legacy_tox_ini[ \t]*=[ \t]*(\"{3}|'{3})(?P<ini>.*?)\1""", re.MULTILINE | re.DOTALL
)
#: Sections and keys whose values are environments of tox.
_INI = {(section, key) for section in ("tox", "tox:tox") for key in ("envlist", "env_list")}
_TOML = {(table, key) for table in ("", "tool.tox") for key in ("envlist", "env_list")}


def legacy_ini(text: str) -> tuple[int, int]:
    """Return the span of the INI file that ``legacy_tox_ini`` holds; an empty one if none does."""
    found = _LEGACY.search(text)
    return (0, 0) if found is None else found.span("ini")


def ini_environments(text: str, offset: int = 0) -> Iterator[Pin]:
    """Yield the lists of environments in an INI file that begins at `offset`."""
    for value in ini_values(text):
        if (value.section, value.key) in _INI:
            found = text[value.start : value.stop].rstrip()
            stop = value.start + len(found)
            start = stop - len(found.lstrip(" \t"))
            yield Pin(PYTHON, start + offset, stop + offset, text[start:stop], "environments")


def toml_environments(text: str) -> Iterator[Pin]:
    """Yield the list of environments in TOML, whose strings nobody but the user changes."""
    start, stop = legacy_ini(text)
    yield from ini_environments(text[start:stop], start)
    strings = [one for one in toml_strings(text) if (one.table, one.key) in _TOML]
    if strings:
        names = ", ".join(one.value for one in strings)
        span = strings[0].start, strings[-1].stop
        yield Pin(PYTHON, *span, names, "environments", is_fixed=True)
