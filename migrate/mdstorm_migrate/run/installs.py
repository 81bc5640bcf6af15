"""What a notebook installs, where its own code goes on importing Petastorm."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from mdstorm_migrate.base.document import Reading
from mdstorm_migrate.base.edits import Edit
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.python.module import parse_python

__all__ = ["installs", "keep_installs"]

#: Rules whose edits install mdstorm.
_RULES = frozenset({"PM406", "PM407"})
_MESSAGE = "require it beside Petastorm, which code of this notebook goes on importing"


def installs(reading: Reading, edits: Sequence[Edit]) -> bool:
    """Whether some edits change what a notebook installs."""
    kinds = {document.kind for document in reading.documents}
    is_notebook = "python" in kinds and bool(kinds & {"magic", "shell"})
    return is_notebook and any(edit.rule in _RULES for edit in edits)


def keep_installs(reading: Reading, edits: Sequence[Edit], outcome: Reading) -> list[Edit]:
    """Return the edits with which Petastorm stays installed, if code of the outcome imports it.

    What takes its place is installed beside it, if that is imported, too.
    """
    imported = _imported(outcome)
    if OLD_ROOT not in imported:
        return list(edits)
    kept = []
    for edit in edits:
        if edit.rule not in _RULES:
            kept.append(edit)
        elif NEW_ROOT in imported and not _is_beside(reading, edit):
            quote = _quote(reading, edit)
            old = reading.text[edit.start : edit.stop]
            new = f"{old}{quote} {quote}{edit.replacement}"
            kept.append(replace(edit, replacement=new, message=_MESSAGE))
    return kept


def _imported(reading: Reading) -> set[str]:
    """Return the packages that the code of a file imports."""
    found: set[str] = set()
    for document in reading.documents:
        for node in ast.walk(parse_python(document.code)) if document.kind == "python" else ():
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def _is_beside(reading: Reading, edit: Edit) -> bool:
    """Whether the line installs the other one already."""
    # In the JSON of a notebook, the end of a line is spelt out.
    before = re.split(r"\n|\\n", reading.text[: edit.start])[-1]
    after = re.split(r"\n|\\n", reading.text[edit.stop :], maxsplit=1)[0]
    name = edit.replacement.partition("[")[0]
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", before + after) is not None


def _quote(reading: Reading, edit: Edit) -> str:
    """Return the quotation mark that a requirement stands in, as the text of the file has it."""
    is_json = reading.text.lstrip().startswith("{")
    before, after = reading.text[: edit.start], reading.text[edit.stop :]
    for quote in ('\\"' if is_json else '"', "'"):
        if before.endswith(quote) and after.startswith(quote):
            return quote
    return ""
