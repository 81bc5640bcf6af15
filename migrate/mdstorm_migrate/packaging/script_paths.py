"""Petastorm's scripts that are called by a path: ``venv/bin/petastorm-throughput.py``."""

from __future__ import annotations

import re

#: The folder of a script, up to its name: words and variables.
_FOLDER = re.compile(
    r"""(?!-)["']?(?:\$\([\w./-]+\) | \$?\{[^}\n]*\}\}? | ["'](?=/) | [\w.~$%+/\\-])+/\Z""",
    re.VERBOSE,
)
#: Folders that Python is in, too; those of the system and of users need not have it.
_BESIDE = re.compile(r"(?:^|/)(?:bin|Scripts)/\Z")
_ALONE = re.compile(r"""(?:^["']?/usr|/\.local)/bin/\Z""")
#: What holds such a folder: the whole of the last part is a variable.
_VARIABLE = re.compile(r"""(?:^|/)["']?(?:\$\(\w+\)|\$\{[^}]*\}|\{\{[^}]*\}\}|\$\w+)["']?/\Z""")
#: How far before a name its folder begins, in characters.
_FAR = 300


def folder_of(text: str, position: int) -> str:
    """Return the folder right before the name of a script, with its last slash; empty if none."""
    line = max(text.rfind("\n", 0, position) + 1, position - _FAR)
    found = _FOLDER.search(text, line, position) if text[position - 1 : position] == "/" else None
    return found[0] if found else ""


def may_hold_scripts(folder: str) -> bool:
    """Whether a folder may be one that pip installs scripts to, and not one of the project's."""
    return not folder or any(one.search(folder) for one in (_BESIDE, _VARIABLE))


def python_of(folder: str) -> str | None:
    """Return the command of the Python that scripts in a folder run in; None if it is unknown."""
    if not folder:
        return "python"
    is_open = folder[0] in "\"'" and folder.count(folder[0]) % 2 == 1
    if is_open or not _BESIDE.search(folder) or _ALONE.search(folder):
        return None
    return f"{folder}python"
