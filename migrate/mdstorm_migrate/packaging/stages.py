"""The stages of a Dockerfile that have nothing of the project's in them."""

from __future__ import annotations

import re

from mdstorm_migrate.packaging.commands import install_commands
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT

_FROM = re.compile(
    r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(?P<base>\S+)(?:[ \t]+AS[ \t]+(?P<name>\S+))?",
    re.MULTILINE | re.IGNORECASE,
)
#: What shows that a stage runs the project, and what an install has that is no other package.
_RUNS = re.compile(
    r"^[ \t]*(?:CMD|ENTRYPOINT)\b"
    r"|\b(?:conda|hatch|make|mamba|nox|pdm|pipenv|poetry|pytest|rye|tox|uv)\b"
    r"|\bpython[\d.]*[ \t]+(?!-m[ \t]+pip\b)\S",
    re.MULTILINE | re.IGNORECASE,
)
_INSTALLS = re.compile(
    rf"\b(?:{OLD_ROOT}|{NEW_ROOT})\b|\s-(?:r|c|e)|--(?:requirement|constraint|editable)|[$/]"
    r"|[\s\"']\.(?:[\[\"'\s]|\Z)",
    re.IGNORECASE,
)


def other_stages(text: str) -> list[tuple[int, int]]:
    """Return the spans of the stages that install nothing but other packages, such as linters.

    No other stage takes anything from them, and another one is left.
    """
    stages = list(_FROM.finditer(text))
    ends = [*(one.start() for one in stages[1:]), len(text)] if stages else []
    found = []
    for at, (stage, end) in enumerate(zip(stages, ends, strict=True)):
        names = "|".join(re.escape(one) for one in (stage["name"], str(at)) if one)
        taken = rf"(?im)(?:--from=|^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*)(?:{names})(?:\s|\Z)"
        body = text[stage.start() : end]
        commands = [body[start:stop] for _, start, stop in install_commands(body)]
        is_other = commands and not any(map(_INSTALLS.search, commands))
        if is_other and not (_RUNS.search(body) or re.search(taken, text)):
            found.append((stage.start(), end))
    return found if len(found) < len(stages) else []
