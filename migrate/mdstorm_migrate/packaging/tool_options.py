"""Options of other tools that name the modules of a library, in commands and lists of arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.packaging.tool_settings import Setting

#: Of pylint and isort, as words of a command or as items of a list.
_GAP = r"""(?: = | [ \t]+ | ["']?[ \t]*,\s*["']? | ["']?[ \t]*\r?\n[ \t]*-[ \t]+ ) ["']?"""
_MODULES = re.compile(
    rf"""(?<![\w-])(?P<option>--(?:ignored-(?:modules|classes)|known-third-party|thirdparty
      |extension-pkg-(?:whitelist|allow-list)))
    {_GAP} (?P<value>[\w.*]+(?:,[\w.*]+)*)""",
    re.VERBOSE,
)
#: The short name of ``--thirdparty``, behind isort in its line or in its hook of pre-commit.
_ISORT = re.compile(
    rf"""(?: \bisort\b [^\n;&|]*?
      | \bid:[ \t]*isort\b [^\n]*\n (?:(?![ \t]*-[ ]id:)[^\n]*\n){{0,12}}? [^\n]*? )
    (?<![\w-])(?P<option>-o) {_GAP} (?P<value>petastorm(?![\w-]))""",
    re.VERBOSE,
)
#: The module or the class of a filter of warnings: ``ignore::FutureWarning:petastorm.*``.
_FILTER = re.compile(
    r"""(?:^[ \t]*|-W[ =]?["']?|[,"'=:][ \t]*|-[ \t]+)
    (?:always|default|error|ignore|module|once):[^:\r\n]*:
    (?: [^:\r\n]*:(?P<module>petastorm)\b | (?P<category>petastorm(?:\.\w+)+) )""",
    re.MULTILINE | re.VERBOSE,
)


def module_options(text: str) -> Iterator[Setting]:
    """Yield the values of options whose modules mean the same with mdstorm."""
    for found in (*_MODULES.finditer(text), *_ISORT.finditer(text)):
        yield Setting("modules", found["option"], *found.span("value"))


def warning_filters(text: str, start: int, stop: int) -> Iterator[tuple[int, str]]:
    """Yield where Petastorm stands in filters of warnings, and the class, if it names one."""
    for found in _FILTER.finditer(text[start:stop]):
        yield start + found.start(found.lastgroup or 0), found["category"] or ""
