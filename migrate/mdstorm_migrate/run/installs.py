"""Keep Petastorm installed in notebooks and scripts whose code still imports it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from mdstorm_migrate.base.document import DecodedFile
from mdstorm_migrate.base.edits import Edit
from mdstorm_migrate.packaging.pins import pins_of
from mdstorm_migrate.packaging.upper_bounds import WORDS, upper_bounds
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.python.parsing import parse_python

#: Rules whose edits install mdstorm.
_RULES = frozenset({"PM402", "PM406", "PM407"})
#: What imports Petastorm itself at run time: Horovod's estimators for Spark.
_THROUGH = re.compile(
    rb"""(?:^|["n>])[ \t]*(?:from|import)[ \t]+horovod\.spark
    (?: \.(?:keras|torch|lightning|data_loaders|common\.(?:store|estimator|backend))\b
      | [ \t]+import[ \t][^\n]*\b(?:keras|torch|lightning)\b
      | \.common[ \t]+import[ \t][^\n]*\b(?:store|estimator|backend)\b )""",
    re.MULTILINE | re.VERBOSE,
)
_MESSAGE = (
    "require mdstorm beside Petastorm, which this notebook or one that runs it still imports, and "
    f"which works with {WORDS} alone"
)


def is_install(edit: Edit) -> bool:
    """Whether an edit changes what a command installs."""
    return edit.rule in _RULES


def imports_through(data: bytes) -> bool:
    """Whether code imports a library that imports Petastorm itself, which must stay installed."""
    return b"horovod.spark" in data and _THROUGH.search(data) is not None


def installs(file: DecodedFile, edits: Sequence[Edit]) -> bool:
    """Whether some edits change what a notebook, or a script with metadata, installs."""
    kinds = {document.kind for document in file.documents}
    is_notebook = "python" in kinds and bool(kinds & {"magic", "pyproject", "shell"})
    return is_notebook and any(map(is_install, edits))


def keep_installs(
    file: DecodedFile,
    edits: Sequence[Edit],
    outcome: DecodedFile,
    around: frozenset[str] = frozenset(),
) -> list[Edit]:
    """Return the edits with which Petastorm stays installed, if code of the outcome imports it.

    What takes its place is installed beside it, if that is imported, too. `around` is what the
    notebooks import that run this one.
    """
    imported = imported_packages(outcome) | around
    if OLD_ROOT not in imported:
        return list(edits)
    kept: list[Edit] = []
    bounds = upper_bounds(
        pin for one in file.documents if one.kind != "python" for pin in pins_of(one)
    )
    for edit in edits:
        if not is_install(edit) or edit.start == edit.stop:
            kept.append(edit)
        elif NEW_ROOT in imported and not _is_beside(file, edit):
            quote = _quote(file, edit)
            old = file.text[edit.start : edit.stop]
            gap = ", " if edit.rule == "PM402" else " "
            new = f"{old}{quote}{gap}{quote}{edit.replacement}"
            mark = "" if quote else _other_quote(file, edit)
            for bound in bounds:
                new += f"{quote}{gap}{quote}{mark}{bound}{mark}"
            kept.append(replace(edit, replacement=new, message=_MESSAGE))
    return kept


def imported_packages(file: DecodedFile) -> set[str]:
    """Return the packages that the code of a file imports, or Horovod's estimators for it.

    Cells that cannot be parsed count.
    """
    found = {OLD_ROOT for cell in file.broken if cell.imports}
    for document in file.documents:
        if document.kind == "python" and imports_through(document.code.encode()):
            found.add(OLD_ROOT)
        for node in ast.walk(parse_python(document.code)) if document.kind == "python" else ():
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found


def _is_beside(file: DecodedFile, edit: Edit) -> bool:
    """Whether the line installs the other one already."""
    # In the JSON of a notebook, the end of a line is spelt out.
    before = re.split(r"\n|\\n", file.text[: edit.start])[-1]
    after = re.split(r"\n|\\n", file.text[edit.stop :], maxsplit=1)[0]
    name = edit.replacement.partition("[")[0]
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", before + after) is not None


def _other_quote(file: DecodedFile, edit: Edit) -> str:
    """Return a quotation mark for a word of a command, which may stand in one of the others."""
    is_json = file.text.lstrip().startswith("{")
    line = re.split(r'\n|\\n|(?<!\\)"' if is_json else r"\n", file.text[: edit.start])[-1]
    if line.count("'") % 2 == 0:
        return "'"
    return '\\"' if is_json else '"'


def _quote(file: DecodedFile, edit: Edit) -> str:
    """Return the quotation mark that a requirement stands in, as the text of the file has it."""
    is_json = file.text.lstrip().startswith("{")
    before, after = file.text[: edit.start], file.text[edit.stop :]
    for quote in ('\\"' if is_json else '"', "'"):
        if before.endswith(quote) and after.startswith(quote):
            return quote
    return ""
