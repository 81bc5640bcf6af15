"""Where requirements stand in a ``pyproject.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.packaging.toml_text import TomlKey, TomlString, toml_keys, toml_strings

#: Tables whose strings are requirements, with the keys that hold them; None for all of them.
_REQUIREMENTS: tuple[tuple[str, str | None], ...] = (
    (r"", "dependencies"),  # of a script, by PEP 723
    (r"project", r"dependencies|optional-dependencies\..*"),
    (r"project\.optional-dependencies", None),
    (r"dependency-groups", None),
    (r"build-system", "requires"),
    (r"(tool\.tox\.)?(env_run_base|env\..+)", "deps"),
    (r"(tool\.hatch\.)?envs\..*", r"(.*\.)?(set-)?(extra-)?dependencies"),
    (r"tool\.(pdm|rye|uv)(\..*)?", "(dev-|override-|constraint-)?dependencies|[a-z]+"),
)
_TABLES = re.compile(
    r"tool\.(poetry\.((dev-)?dependencies|group\..+\.dependencies)|pdm\.resolution\.overrides)"
)
#: The name of a group follows, not that of a package.
_INCLUDED = re.compile(r"""\binclude-group["']?[ \t]*=[ \t]*\Z""")


def requirement_strings(text: str) -> Iterator[TomlString]:
    """Yield the strings that may be requirements: of PEP 621, PEP 735, Hatch, PDM and uv."""
    for string in toml_strings(text):
        if _INCLUDED.search(text, max(string.start - 40, 0), string.start - 1):
            continue
        if _holds_requirements(string):
            yield string


def dependency_keys(text: str) -> Iterator[TomlKey]:
    """Yield the keys that are names of dependencies, as Poetry has them."""
    return (key for key in toml_keys(text) if _TABLES.fullmatch(key.table))


def _holds_requirements(string: TomlString) -> bool:
    return any(
        re.fullmatch(table, string.table) and (key is None or re.fullmatch(key, string.key))
        for table, key in _REQUIREMENTS
    )
