"""The report as one HTML page without scripts, which does not load other files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from mdstorm_migrate.base.edits import CLASSES, unified_diff
from mdstorm_migrate.report.content import FileReport, Report

if TYPE_CHECKING:  # only a run with an HTML report imports Jinja
    from jinja2 import Template
    from markupsafe import Markup

#: Characters that are invisible or change the direction of the text after them.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)
_CODE = re.compile(r"`([^`\n]+)`")
#: Number of folders listed for a group: the ones with the most places.
_MOST_FOLDERS = 6


def to_html(report: Report) -> str:
    """Return the report on a run as an HTML page; ``assets/report.html.jinja`` is its template."""
    return _template().render(
        report=report,
        groups=_groups(report),
        summary_of=_summary,
        meanings=CLASSES,
        diffs_of=_diffs,
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("mdstorm_migrate.report", "assets"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
    )
    environment.filters["prose"] = _prose
    return environment.get_template("report.html.jinja")


def _shown(value: object) -> Markup:
    """Return the HTML of a value, with invisible characters escaped visibly."""
    from markupsafe import Markup, escape

    text = str(escape(f"{value:,}" if isinstance(value, int) else value))
    return Markup(_HIDDEN.sub(lambda match: rf"\u{ord(match.group()):04x}", text))


def _prose(text: str) -> Markup:
    """Return the HTML of a sentence; backticks mark code."""
    from markupsafe import Markup, escape

    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def _groups(report: Report) -> list[tuple[tuple[str, str, str], list[tuple[str, str]]]]:
    """Return what to do by hand, with the paths and places where it is the same; most first."""
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for cls, code, what, path, place in _tasks(report):
        groups.setdefault((cls, code, what), []).append((path, place))
    return sorted(groups.items(), key=lambda group: len(group[1]), reverse=True)


def _summary(places: Sequence[tuple[str, str]]) -> str:
    """Return the number of places, and the folders that they are in."""
    number = f"{len(places):,} place{'s' * (len(places) > 1)}"
    files = len({path for path, _ in places})
    if files == 1:
        return f"{number} in one file"
    folders = Counter(f"{PurePosixPath(path).parent}/" for path, _ in places).most_common()
    shown = [f"{folder} {count:,}" for folder, count in folders[:_MOST_FOLDERS]]
    shown += ["…"] if len(folders) > _MOST_FOLDERS else []
    return f"{number} in {files:,} files: {', '.join(shown)}"


def _tasks(report: Report) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the class, the code, what to do, the path and the place of all work by hand."""
    for file in report.files:
        for problem in file.problems:
            what = problem.reason if problem.cell is not None else f"not migrated: {problem.reason}"
            yield "problem", "error", what, file.path, problem.place
        for item in file.items:
            if item.found.cls == "manual":
                yield "manual", item.found.rule, item.text, file.path, item.place
    for one in report.skipped:
        if one.is_error:
            yield "problem", "error", f"not migrated: {one.reason}", one.path.as_posix(), ""


def _diffs(file: FileReport) -> Iterator[tuple[str, list[str]]]:
    """Yield diffs with their titles; for a notebook, of its cells rather than its JSON."""
    pairs = [("", file.before, file.after)] if file.edits else []
    if file.is_notebook:
        pairs = [(f"Cell {number}", old, new) for number, old, new in file.cells]
    for title, before, after in pairs:
        if diff := unified_diff(before, after, file.path):
            yield title, diff.rstrip("\n").split("\n")[2:]  # without the names of the files
