"""Installs that take nothing from an index: a folder must have what they name."""

from __future__ import annotations

import re

from mdstorm_migrate.packaging.commands import install_commands
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.origins import other_origins
from mdstorm_migrate.packaging.requirement import Requirement, find_requirements

#: What is said of such an install.
NO_INDEX = "`--no-index` installs"
_NO_INDEX = re.compile(r"(?<![\w-])--no-index(?![\w-])")
_BRINGS = re.compile(r"\bpip[\d.]*[ \t](?:[^\n;&|]*?[ \t])?(?:download|wheel)\b")
#: A list whose wheels are brought.
_LIST = re.compile(r"(?<![\w-])(?:-r|--requirement)[ \t=]")


def without_index(text: str, found: Requirement) -> str | None:
    """Say why an install without an index waits, unless mdstorm's wheel is brought in this text."""
    if _NO_INDEX.search(text) is None:
        return None
    commands = [
        (text[start:stop], start, stop)
        for tool, start, stop in install_commands(text)
        if tool == "pip" and not is_commented_out(text, start)
    ]
    if not any(
        start <= found.start < stop and _NO_INDEX.search(one) for one, start, stop in commands
    ):
        return None
    bringing = [one for one, _, _ in commands if _BRINGS.match(one) and not _NO_INDEX.search(one)]
    origins = [one for command in bringing for one in other_origins(command, "")]
    required = [one for command in bringing for one in find_requirements(command)]
    if any(one.cls == "manual" for one in origins) or any(
        one.is_fork or one.is_open for one in required
    ):
        return f"{NO_INDEX} what another command here brings, which is left to you"
    if required or any(map(_LIST.search, bringing)):
        return None
    return f"{NO_INDEX} from a folder, which must have mdstorm's wheel then"
