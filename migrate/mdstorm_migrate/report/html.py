"""The report as an HTML page: conditions, a checklist, and the files with their diffs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from mdstorm_migrate.base.edits import CLASSES, unified_diff
from mdstorm_migrate.environment import Condition
from mdstorm_migrate.report.content import FileReport, Item, Report
from mdstorm_migrate.report.page import badge, diff_block, page, prose, rule_page, tag, text, tiles
from mdstorm_migrate.rules import all_rules

#: Groups with more places than this are initially folded.
_MOST_PLACES = 8
#: Number of folders listed for a group: the ones with the most places.
_MOST_FOLDERS = 6


@dataclass(frozen=True)
class _Task:
    """An entry in the checklist: the key that stores its tick, its place, and what to do."""

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
    """Return the checklist section, or an empty string if no manual work remains."""
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
        '<input type="search" id="todo-search" placeholder="Part of a path or text"'
        ' aria-label="Show only entries with this in their path or text">'
        '<span id="todo-shown" class="quiet" role="status"></span>'
        '<button type="button" id="export">Save as Markdown</button>'
        '<button type="button" id="print">Print the list</button></div>'
    )
    hint = (
        "No rule can decide these. Your browser keeps your ticks, "
        "even for the report of the next run."
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
        summary = tag("summary", _count_text(tasks), class_="quiet")
        tick = '<button type="button" class="tick-all needs-js">Tick all</button>'
        is_open = len(tasks) <= _MOST_PLACES
        places = tag("details", f"{summary}{tick}{places}", class_="places", open=is_open)
    content = f'<div class="reason">{reason}</div>{places}'
    return tag("li", content, class_="group", data_text=f"{first.code}: {first.what}")


def _count_text(tasks: Sequence[_Task]) -> str:
    """Return the number of places, and the folders that they are in."""
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


#: With more files than this, all files are initially folded.
_MOST_OPEN = 20

_FAILED = "not fully migrated"
_MEANING = {
    "exact": "same behaviour",
    "review": "behaviour may differ",
    "manual": "needs manual review",
    "note": "worth knowing",
    "problem": "not migrated",
}


def to_html(report: Report) -> str:
    """Return the report on a run as one HTML page, which does not load other files."""
    body = [
        _header(report),
        "<main>",
        _before_running(report),
        checklist(report),
        _filters(report),
        _files(report),
        _skipped(report),
        _rules(report),
        "</main>",
    ]
    return page("Migration to mdstorm", "\n".join(filter(None, body)), "report.js")


def _header(report: Report) -> str:
    totals = report.totals
    count = totals.written if report.write else totals.changed
    what = "changed" if report.write else "would change"
    counts = [
        (None, count, f"file {what}", f"files {what}"),
        ("exact", totals.exact, "exact edit", "exact edits"),
        ("review", totals.review, "edit to review", "edits to review"),
        ("review", totals.pending, "edit only with `--unsafe`", "edits only with `--unsafe`"),
        (
            "manual",
            totals.manual,
            "place that needs manual review",
            "places that need manual review",
        ),
        ("note", totals.note - totals.mentions, "note", "notes"),
        ("note", totals.mentions, "line that still mentions it", "lines that still mention it"),
        ("problem", totals.failed, f"file {_FAILED}", f"files {_FAILED}"),
    ]
    shown = tiles(
        "Totals",
        (
            (cls, number, one if number == 1 else many)
            for cls, number, one, many in counts
            if number or cls is None
        ),
    )
    state = (
        "The files were written."
        if report.write
        else "Nothing was written: this is what the same command with <code>-w</code> would do."
    )
    return f'<header><h1>Migration to mdstorm</h1><p class="quiet">{state}</p>{shown}</header>'


def _before_running(report: Report) -> str:
    """Return the section with the conditions to meet before the code runs."""
    if not report.conditions:
        return ""
    entries = "".join(map(_condition, report.conditions))
    heading = '<h2 id="before">Before you run it</h2>'
    return f'<section aria-labelledby="before">{heading}<ul>{entries}</ul></section>'


def _condition(one: Condition) -> str:
    place = "" if one.path is None else tag("span", text(one.place), class_="path")
    return tag("li", f"{place} {prose(one.message)}".strip())


def _filters(report: Report) -> str:
    if not report.files:
        return "<p>No scanned file uses Petastorm.</p>"
    classes = Counter(item.found.cls for _, item in report.items())
    problems = sum(len(file.problems) for file in report.files)
    boxes = [
        _box("class", cls, cls, classes[cls], _MEANING[cls]) for cls in CLASSES if classes[cls]
    ]
    boxes += [_box("class", "problem", "not migrated", problems)] if problems else []
    titles = {rule.code: rule.title for rule in all_rules()}
    rules = [_box("rule", code, code, n, titles[code]) for code, n in report.rules().items()]
    ticks = "".join(
        f'<button type="button" data-tick="rule" data-to="{to}">{label}</button>'
        for to, label in (("all", "all rules"), ("none", "no rules"))
    )
    return (
        '<section aria-labelledby="files"><h2 id="files">Files</h2>'
        '<form id="filters" class="card filters needs-js" aria-label="Filter">'
        f"<fieldset><legend>Class</legend>{''.join(boxes)}</fieldset>"
        f"<fieldset><legend>Rule</legend>{''.join(rules)}{ticks}</fieldset>"
        '<div class="bar"><input type="search" id="search" placeholder="Part of a path"'
        ' aria-label="Show only files with this in their path">'
        '<button type="button" id="expand">Unfold all</button>'
        '<button type="button" id="collapse">Fold all</button>'
        '<span id="shown" class="quiet" role="status"></span></div></form></section>'
    )


def _box(name: str, value: str, label: str, count: int, title: str | None = None) -> str:
    box = f'<input type="checkbox" name="{name}" value="{text(value)}" checked>'
    shown = f'{box} {text(label)} <span class="quiet">{count:,}</span>'
    return tag("label", shown, title=title)


def _files(report: Report) -> str:
    are_open = len(report.files) <= _MOST_OPEN
    return "\n".join(_file(file, are_open) for file in report.files)


def _file(file: FileReport, is_open: bool) -> str:
    counts = Counter(item.found.cls for item in file.items)
    badges = [badge(cls, f"{counts[cls]:,} {cls}") for cls in CLASSES if counts[cls]]
    if file.problems:
        is_about_cells = all(problem.cell is not None for problem in file.problems)
        badges.append(badge("problem", "partly migrated" if is_about_cells else "not migrated"))
    path = tag("span", text(file.path), class_="path")
    items = [
        tag(
            "li",
            f"{badge('problem', 'error')} {prose(problem)}",
            class_="item",
            data_class="problem",
            data_rule="",
        )
        for problem in file.problems
    ]
    items += map(_item, file.items)
    content = f'<ul class="items">{"".join(items)}</ul>'
    content += _diffs(file)
    return tag(
        "details",
        f"<summary>{path}{''.join(badges)}</summary>{content}",
        class_="file",
        data_path=file.path,
        open=is_open,
    )


def _diffs(file: FileReport) -> str:
    """Return the diffs of a file; for a notebook, of its cells rather than its JSON."""
    if not file.edits:
        return ""
    if not file.is_notebook:
        return diff_block(unified_diff(file.before, file.after, file.path))
    cells = ((number, unified_diff(old, new, file.path)) for number, old, new in file.cells)
    return "".join(f"<h3>Cell {number}</h3>{diff_block(diff)}" for number, diff in cells if diff)


def _item(item: Item) -> str:
    found = item.found
    link = f'<a href="#{text(found.rule)}">{text(found.rule)}</a>'
    place = tag("span", text(item.place), class_="quiet")
    shown = f"{badge(found.cls, found.cls)} {link} {place} {prose(item.text)}"
    return tag("li", shown, class_="item", data_class=found.cls, data_rule=found.rule)


def _skipped(report: Report) -> str:
    if not report.skipped:
        return ""
    entries = "".join(
        tag("li", f'<span class="path">{text(one.path.as_posix())}</span>: {prose(one.reason)}')
        for one in report.skipped
    )
    return f"<section><h2>Skipped</h2><ul>{entries}</ul></section>"


def _rules(report: Report) -> str:
    codes = report.rules()
    pages = [
        tag(
            "details",
            f"<summary>{badge(rule.cls, rule.code)} {text(rule.title)}</summary>"
            f"{rule_page(rule.explain())}",
            class_="rule",
            id=rule.code,
        )
        for rule in all_rules()
        if rule.code in codes
    ]
    return f"<section><h2>What the rules do</h2>{''.join(pages)}</section>" if pages else ""
