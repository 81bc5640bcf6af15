"""Which settings of other tools name the modules of a library."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.packaging.ini_text import ini_values
from mdstorm_migrate.packaging.toml_text import toml_keys, toml_strings

#: What a setting does: it runs a part of Petastorm as a ``program``; it names ``modules`` whose
#: names mean the same with mdstorm, or ``distributions``, as the requirements do; it filters
#: ``warnings``; or something ``other`` that people must decide on.
Use: TypeAlias = Literal["program", "modules", "distributions", "warnings", "other"]


@dataclass(frozen=True)
class Setting:
    """A value, or a string of a value, that may name Petastorm.

    Attributes
    ----------
    use : Use
    where : str
        The table or the section, and the key.
    start, stop : int
        The span in characters, without quotes.
    """

    use: Use
    where: str
    start: int
    stop: int


#: Tables and keys of TOML, joined by a slash, by what they do; ``tool.`` left out.
_TOML: dict[Use, re.Pattern[str]] = {
    "program": re.compile(
        r"(?:project\.(?:gui-)?scripts|project\.entry-points\..*|poetry\.(?:scripts|plugins\..*))/.*"
        r"|project/(?:(?:gui-)?scripts|entry-points).*|(?:pdm\.scripts|poe\.tasks)(?:\..*)?/.*"
    ),
    "modules": re.compile(
        r"mypy\.overrides/module"
        r"|isort/(?:known_(?!first_party|local)\w+|forced_separate|extra_standard_library)"
        r"|(?:ruff\.)?(?:lint\.)?isort/known-(?!first-party|local)[\w-]+"
        r"|(?:ruff\.)?(?:lint\.)?isort\.sections/.*"
        r"|(?:ruff\.)?(?:lint\.)?flake8-type-checking/exempt-modules"
        r"|pylint(?:\..*)?/(?:ignored[-_]modules|ignored[-_]classes|known[-_]third[-_]party"
        r"|extension-pkg-(?:whitelist|allow-list))"
        r"|deptry(?:\.per_rule_ignores)?/(?:DEP(?!002)\d+|ignore_(?!unused|obsolete)\w+)"
    ),
    "distributions": re.compile(
        r"deptry(?:\.per_rule_ignores)?/(?:DEP002|ignore_(?:unused|obsolete))"
    ),
    "warnings": re.compile(r"pytest(?:\.ini_options)?/(?:filterwarnings|addopts)"),
    "other": re.compile(
        r"(?:mypy|isort|ruff|lint|pytest|pylint|deptry|importlinter|coverage|pyright|basedpyright"
        r"|pyre|ty|bandit|vulture|flake8)\b.*"
    ),
}
#: The same of sections and keys of INI files.
_INI: dict[Use, re.Pattern[str]] = {
    "program": re.compile(r"options\.entry_points/.+"),
    "modules": re.compile(
        r"mypy-[^/]*/"
        r"|(?:tool:)?(?:isort|settings)/known_(?!first_party|local)\w+"
        r"|(?:tool:)?(?:isort|settings)/(?:forced_separate|extra_standard_library)"
        r"|[^/]*/(?:ignored-modules|ignored-classes|extension-pkg-(?:whitelist|allow-list)"
        r"|known-third-party)"
    ),
    "warnings": re.compile(
        r"(?:tool:)?pytest/(?:filterwarnings|addopts)|testenv[^/]*/(?:commands\w*|set_?env)"
    ),
    "other": re.compile(
        r"(?:(?:tool:)?(?:pytest|isort|settings|mypy|flake8|importlinter\b[^/]*|pylint[^/]*"
        r"|coverage:\w+|pydocstyle|bandit)|MASTER|MAIN|MESSAGES CONTROL|TYPECHECK|IMPORTS|run"
        r"|report)/(?!name$).+",
    ),
}

#: The codes of deptry's rules.
_DEPTRY = re.compile(r"\bDEP\d+")


def tool_settings(document: Document) -> Iterator[Setting]:
    """Yield the settings of a ``pyproject.toml``, a ``ruff.toml`` or an INI file."""
    if document.kind == "setup_cfg":
        for value in ini_values(document.text):
            yield from _setting(_INI, f"{value.section}/{value.key}", value.start, value.stop)
        return
    for string in toml_strings(document.text):
        where = f"{string.table.removeprefix('tool.')}/{string.key}"
        if where == "deptry/per_rule_ignores":  # an inline table, whose keys are codes
            codes = _DEPTRY.findall(document.text, 0, string.start)
            where = f"{where.replace('/', '.')}/{codes[-1]}" if codes else where
        yield from _setting(_TOML, where, string.start, string.stop)
    for key in toml_keys(document.text):
        where = f"{key.table.removeprefix('tool.')}/"
        if _TOML["other"].fullmatch(where):
            yield Setting("other", where, key.start, key.stop)


def _setting(
    table: dict[Use, re.Pattern[str]], where: str, start: int, stop: int
) -> Iterator[Setting]:
    for use, pattern in table.items():
        if pattern.fullmatch(where):
            yield Setting(use, where, start, stop)
            return
