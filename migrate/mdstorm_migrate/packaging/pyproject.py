"""Where requirements stand in a ``pyproject.toml``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.packaging.requirement import is_requirement, is_versioned
from mdstorm_migrate.packaging.toml_text import TomlKey, TomlString, toml_keys, toml_strings

#: Tables whose strings are requirements, with the keys that hold them; None for all of them.
_REQUIREMENTS: tuple[tuple[str, str | None], ...] = (
    (r"", "dependencies"),  # of a script, by PEP 723
    (r"project", r"dependencies|optional-dependencies\..*"),
    (r"project\.optional-dependencies", None),
    (r"dependency-groups", None),
    (r"build-system", "requires"),
    (r"tool\.flit\.metadata", "(dev-)?requires|requires-extra.*"),
    (r"tool\.flit\.metadata\.requires-extra", None),
    (r"(tool\.tox\.)?(env_run_base|env\..+)", "deps"),
    (r"(tool\.hatch\.)?envs\..*", r"(.*\.)?(set-)?(extra-)?dependencies"),
    (r"tool\.(pdm|rye|uv)(\..*)?", "(dev-|override-|constraint-)?dependencies|[a-z]+"),
)
_TABLES = re.compile(
    r"tool\.(poetry\.((dev-)?dependencies|group\..+\.dependencies)|pdm\.resolution\.overrides)"
)
#: The tables of Pixi, also in its own file: what pip installs, and what conda does.
_PIXI = re.compile(r"(?:tool\.pixi\.)?((?:feature|target)\..+\.)?(?P<pip>pypi-)?dependencies")
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
    """Yield the keys that are names of dependencies: of Poetry and Pixi."""
    return (
        key for key in toml_keys(text) if _TABLES.fullmatch(key.table) or _PIXI.fullmatch(key.table)
    )


def is_of_conda(key: TomlKey) -> bool:
    """Whether conda installs a dependency, as Pixi has it do."""
    table = _PIXI.fullmatch(key.table)
    return table is not None and table["pip"] is None


def other_requirements(text: str) -> Iterator[TomlString]:
    """Yield the strings that require Petastorm in tables of tools that are not known."""
    for string in toml_strings(text):
        is_one = is_versioned(string.value) and is_requirement(string.value)
        if is_one and not _holds_requirements(string):
            yield string


def _holds_requirements(string: TomlString) -> bool:
    return any(
        re.fullmatch(table, string.table) and (key is None or re.fullmatch(key, string.key))
        for table, key in _REQUIREMENTS
    )
