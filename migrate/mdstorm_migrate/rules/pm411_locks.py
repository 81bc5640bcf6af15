"""PM411: lock files, which only the tool that generated them may change."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.lists import is_generated
from mdstorm_migrate.rules.rule import rule

CODE = "PM411"

_ENTRY = re.compile(
    r"""^[ \t]* (?:-[ \t]+)? (?:name[ \t]*[=:][ \t]*)? ["']? petastorm ["']?
    (?= [ \t]* (?: [=:\[<>~!@] | \r?$ ) )""",
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
#: The beginning of a hash, which is the same in the lock files of all tools.
_HASH = re.compile(r"\bsha256[:=]")
_COMMANDS = {
    "poetry.lock": "poetry lock",
    "pdm.lock": "pdm lock",
    "uv.lock": "uv lock",
    "pipfile.lock": "pipenv lock",
    "pixi.lock": "pixi lock",
}


@rule(CODE, "Lock files must be regenerated", "manual", "lock", "requirements")
def check(document: Document) -> Iterator[Finding]:
    """Yield one finding for a file that locks Petastorm."""
    needs = document.needs
    is_by_hand = document.kind == "requirements" and not is_generated(document.text)
    if is_by_hand or (needs.importers and not needs.moved):
        return
    entry = _ENTRY.search(document.text)
    if entry is not None:
        name = document.path.name if document.path is not None else ""
        command = _COMMANDS.get(name.lower())
        by = f" with {command}" if command else ""
        hashes = " and its hashes" if _HASH.search(document.text, entry.end()) else ""
        what = f"this generated file locks Petastorm{hashes}"
        remedy = f"generate it again{by} once its source requires mdstorm"
        yield Finding(CODE, "manual", *entry.span(), what, remedy, topic="run")
