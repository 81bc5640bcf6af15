"""Comments for what needs a person: ``# TODO(mdstorm): PM107: …`` above the statement."""

from __future__ import annotations

from collections.abc import Sequence

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.python.module import PythonModule

__all__ = ["MARK", "todo_edits"]

MARK = "# TODO(mdstorm):"

#: Kinds of documents that have comments which begin with ``#``, on lines of their own.
_WITH_COMMENTS: frozenset[Kind] = frozenset(
    {"python", "requirements", "pyproject", "setup_cfg", "conda", "pipfile", "spark_conf"}
)


def todo_edits(
    document: Document, module: PythonModule | None, findings: Sequence[Finding]
) -> list[Edit]:
    """Return the edits that insert comments for `findings` with a remedy; none that is there."""
    if document.kind not in _WITH_COMMENTS:
        return []
    edits: dict[tuple[int, str], Edit] = {}
    for found in findings:
        if found.remedy is None:
            continue
        comment = f"{MARK} {found.rule}: {found.remedy}"
        start = found.start if module is None else module.logical_line(found.start)[0]
        place = document.lines.start_of(start)
        if (place, comment) in edits or comment in _comments_above(document, place):
            continue
        indent = document.lines.indent_of(start)
        edits[place, comment] = Edit(
            found.rule,
            "manual",
            place,
            place,
            f"{indent}{comment}{document.lines.newline}",
            f"says what to do about: {found.message}",
        )
    return list(edits.values())


def _comments_above(document: Document, place: int) -> set[str]:
    """Return the lines of comments directly above the line that begins at `place`."""
    found = set()
    line = document.lines.place(place)[0] - 2
    starts = document.lines.starts
    while line >= 0:
        text = document.text[starts[line] : starts[line + 1]].strip()
        if not text.startswith("#"):
            break
        found.add(text)
        line -= 1
    return found
