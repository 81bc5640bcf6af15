"""``pip install`` commands in shell scripts, Dockerfiles, notebooks and workflows."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.edits import Edit, Finding
from mdstorm_migrate.requirement import (
    Requirement,
    edit_requirement,
    find_requirements,
    other_origins,
)

__all__ = ["report_runs", "rewrite_commands"]

#: A command up to what ends it: a new line that is not continued, or one of the shell's operators.
#: Comments among the lines of a command, which Dockerfiles may have, do not end it.
_END = r"(?:[^\n\\;&|#]|\\[ \t]*\r?\n(?:[ \t]*\#[^\n]*\n)*|\\.|&(?!&)|\|(?!\|)|(?<!\s)\#)*"
#: Between two words of a command, which may be a list of strings, as in Dockerfiles.
_GAP = r"""(?:[ \t]+|["'][ \t]*,[ \t]*["'])"""
_PIP = re.compile(
    rf"\b(?:pip[\d.]*|pipenv|poetry|uv|pdm)\b{_GAP}(?:pip{_GAP})?(?:-[\w-]+{_GAP})*"
    rf"(?:install|add)\b{_END}"
)
_CONDA = re.compile(rf"\b(?:conda|mamba|micromamba)\b{_GAP}(?:install|create)\b{_END}")
#: Code of Petastorm's that a command runs: ``python -c "import petastorm"``, ``python -m
#: petastorm.etl…``, its own scripts.
_RUN = re.compile(
    r"(?:\bfrom|\bimport|-m)[ \t]+(?P<module>petastorm)(?![\w-])"
    r"|(?<![\w/.-])(?P<script>petastorm-[a-z-]+\.py)\b"
)


def rewrite_commands(text: str, rule: str) -> Iterator[Edit | Finding]:
    """Yield what becomes of the requirements in the install commands of a text.

    Only the requirement itself changes; options, quotes and other packages stay. A version that is
    not quoted, which a shell takes for a redirection (``petastorm>=0.12``), goes with the rest.
    """
    for command in _commands(_PIP, text):
        for found in _requirements(text, command):
            yield edit_requirement(found, rule)
    for command in _commands(_CONDA, text):
        for found in _requirements(text, command):
            yield Finding(
                rule,
                "manual",
                found.start,
                found.stop,
                "mdstorm is installed by pip: conda has no package of it",
                "take petastorm out of this command and add `pip install mdstorm`",
            )
    yield from other_origins(text, rule)


def report_runs(text: str, rule: str) -> Iterator[Finding]:
    """Report commands that run code of Petastorm's, or the scripts that come with it."""
    for match in _RUN.finditer(text):
        if not _is_commented_out(text, match.start()):
            yield Finding(
                rule,
                "manual",
                *match.span(),
                f"this command runs Petastorm: `{match[0]}`",
                "name mdstorm here, or take this out",
            )


def _commands(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the commands that are not commented out."""
    for match in pattern.finditer(text):
        if not _is_commented_out(text, match.start()):
            yield match


def _requirements(text: str, command: re.Match[str]) -> Iterator[Requirement]:
    for found in find_requirements(text, command.start(), command.end()):
        if not _is_commented_out(text, found.start):
            yield found


def _is_commented_out(text: str, position: int) -> bool:
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return re.search(r"(^|\s)#", line) is not None
