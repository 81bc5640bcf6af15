"""The checklist of the HTML page: what needs manual review, grouped by what is to be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from mdstorm_migrate.report.content import Report
from mdstorm_migrate.report.page import badge, prose, tag, text

#: Groups with more places than this are folded at first.
_MOST_PLACES = 8
#: Folders that are counted by name, those with the most places.
_MOST_FOLDERS = 6


@dataclass(frozen=True)
class _Task:
    """One place: what keeps its tick, where it is, and what is to be done."""

    key: str
    path: str
    place: str
    cls: str
    code: str
    what: str

    @property
    def folder(self) -> str:
        return f"{PurePosixPath(self.path).parent}/"


def checklist(report: Report) -> str:
    """Return the section; nothing if nothing is left to do by hand."""
    groups: dict[tuple[str, str, str], list[_Task]] = {}
    for task in _tasks(report):
        groups.setdefault((task.cls, task.code, task.what), []).append(task)
    if not groups:
        return ""
    ordered = sorted(groups.values(), key=len, reverse=True)
    count = sum(map(len, ordered))
    bar = (
        '<div class="bar needs-js">'
        f'<progress id="done" max="{count}" value="0" aria-label="Done"></progress>'
        '<span id="done-text" role="status"></span>'
        '<input type="search" id="todo-search" placeholder="Part of a path or of a text"'
        ' aria-label="Show only what has this in its path or text">'
        '<span id="todo-shown" class="quiet" role="status"></span>'
        '<button type="button" id="export">Save as Markdown</button>'
        '<button type="button" id="print">Print the list</button></div>'
    )
    hint = (
        "No rule can decide these. Your ticks are kept in this browser, "
        "also for the report of the next run."
    )
    return (
        '<section class="checklist" aria-labelledby="todo">'
        f'<h2 id="todo">To do by hand ({count:,})</h2>'
        f'<p class="quiet">{hint}</p>{bar}'
        f'<ul class="todo card">{"".join(map(_group, ordered))}</ul></section>'
    )


def _tasks(report: Report) -> Iterator[_Task]:
    for file in report.files:
        for number, problem in enumerate(file.problems):
            key = f"{file.path}#{number}"
            where = ":".join([file.path, *filter(None, [problem.place])])
            what = problem.reason if problem.cell is not None else _failed(problem.reason)
            yield _Task(key, file.path, where, "problem", "error", what)
        for item in file.items:
            if item.found.cls == "manual":
                place = f"{file.path}:{item.place}"
                code = item.found.rule
                yield _Task(item.fingerprint, file.path, place, "manual", code, item.text)
    for one in report.skipped:
        if one.is_error:
            path = one.path.as_posix()
            yield _Task(path, path, path, "problem", "error", _failed(one.reason))


def _failed(reason: str) -> str:
    return f"not migrated: {reason}"


def _group(tasks: Sequence[_Task]) -> str:
    first = tasks[0]
    reason = f'{badge(first.cls, first.code)} <span class="what">{prose(first.what)}</span>'
    places = f'<ul class="places">{"".join(map(_place, tasks))}</ul>'
    if len(tasks) > 1:
        summary = tag("summary", _counted(tasks), class_="quiet")
        tick = '<button type="button" class="tick-all needs-js">Tick all</button>'
        is_open = len(tasks) <= _MOST_PLACES
        places = tag("details", f"{summary}{tick}{places}", class_="places", open=is_open)
    content = f'<div class="reason">{reason}</div>{places}'
    return tag("li", content, class_="group", data_text=f"{first.code}: {first.what}")


def _counted(tasks: Sequence[_Task]) -> str:
    """Say how many places there are, and in which folders."""
    files = len({task.path for task in tasks})
    folders = Counter(task.folder for task in tasks).most_common()
    shown = [f"{text(folder)}&nbsp;<b>{count:,}</b>" for folder, count in folders[:_MOST_FOLDERS]]
    shown += ["…"] if len(folders) > _MOST_FOLDERS else []
    what = f"{len(tasks):,} places in {f'{files:,} files' if files > 1 else 'one file'}"
    return f"{what}: {', '.join(shown)}" if files > 1 else what


def _place(task: _Task) -> str:
    box = f'<input type="checkbox" value="{text(task.key)}">'
    label = tag("label", box + tag("span", text(task.place), class_="path"))
    return tag("li", label, data_place=task.place)
