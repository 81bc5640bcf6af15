"""The report as an HTML page: side-by-side diffs, a filter, a checklist."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mdstorm_migrate.base.edits import CLASSES
from mdstorm_migrate.report.content import FileReport, Item, Report
from mdstorm_migrate.report.page import badge, diff_table, page, tag, text, tiles
from mdstorm_migrate.report.side_by_side import hunks
from mdstorm_migrate.rules import all_rules

#: With more files than this, all are folded at first.
_MOST_OPEN = 20

_MEANING = {
    "exact": "same behaviour",
    "review": "behaviour may differ",
    "manual": "needs manual review",
    "note": "worth knowing",
    "problem": "not migrated",
}


def to_html(report: Report) -> str:
    """Return a run as one HTML page, which fetches nothing and can be opened from a disk."""
    todo = list(_todo(report))
    body = [
        _header(report),
        "<main>",
        _checklist(todo),
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
        (None, count, f"file {what}" if count == 1 else f"files {what}"),
        ("exact", totals.exact, "exact edits"),
        ("review", totals.review, "edits to review"),
        ("review", totals.pending, "edits only with --unsafe"),
        ("manual", totals.manual, "places that need manual review"),
        ("note", totals.note, "notes"),
        ("problem", totals.failed, "files not migrated"),
    ]
    shown = tiles("Totals", (one for one in counts if one[1] or one[0] is None))
    state = (
        "The files were written."
        if report.write
        else "Nothing was written: this is what <code>mdstorm migrate -w</code> would do."
    )
    return f'<header><h1>Migration to mdstorm</h1><p class="quiet">{state}</p>{shown}</header>'


def _todo(report: Report) -> Iterator[str]:
    """Yield what needs manual review, one entry of a list each."""
    for file in report.files:
        for number, problem in enumerate(file.problems):
            key = f"{file.path}#{number}"
            yield _task(key, file.path, "problem", "error", f"not migrated: {problem}")
        for item in file.items:
            if item.found.cls == "manual":
                place = f"{file.path}:{item.place}"
                yield _task(item.fingerprint, place, "manual", item.found.rule, item.text)
    for one in report.skipped:
        if one.is_error:
            path = one.path.as_posix()
            yield _task(path, path, "problem", "error", f"not migrated: {one.reason}")


def _task(key: str, place: str, cls: str, code: str, what: str) -> str:
    where = tag("span", text(place), class_="path quiet")
    label = tag(
        "label",
        f'<input type="checkbox" value="{text(key)}">{badge(cls, code)}'
        f'<span class="what">{where} {text(what)}</span>',
    )
    return tag("li", label, data_place=place, data_text=f"{code}: {what}")


def _checklist(todo: list[str]) -> str:
    if not todo:
        return ""
    count = len(todo)
    bar = (
        '<div class="bar needs-js">'
        f'<progress id="done" max="{count}" value="0" aria-label="Done"></progress>'
        '<span id="done-text" role="status"></span>'
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
        f'<ul class="todo card">{"".join(todo)}</ul></section>'
    )


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
        ' aria-label="Show only files whose path has this in it">'
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
    badges += [badge("problem", "not migrated")] if file.problems else []
    path = tag("span", text(file.path), class_="path")
    items = [
        tag(
            "li",
            f"{badge('problem', 'error')} {text(problem)}",
            class_="item",
            data_class="problem",
            data_rule="",
        )
        for problem in file.problems
    ]
    items += map(_item, file.items)
    content = f'<ul class="items">{"".join(items)}</ul>'
    content += "".join(map(diff_table, hunks(file.lines, file.edits)))
    return tag(
        "details",
        f"<summary>{path}{''.join(badges)}</summary>{content}",
        class_="file",
        data_path=file.path,
        open=is_open,
    )


def _item(item: Item) -> str:
    found = item.found
    link = f'<a href="#{text(found.rule)}">{text(found.rule)}</a>'
    place = tag("span", text(item.place), class_="quiet")
    shown = f"{badge(found.cls, found.cls)} {link} {place} {text(item.text)}"
    return tag("li", shown, class_="item", data_class=found.cls, data_rule=found.rule)


def _skipped(report: Report) -> str:
    if not report.skipped:
        return ""
    entries = "".join(
        tag("li", f'<span class="path">{text(one.path.as_posix())}</span>: {text(one.reason)}')
        for one in report.skipped
    )
    return f"<section><h2>Skipped</h2><ul>{entries}</ul></section>"


def _rules(report: Report) -> str:
    codes = report.rules()
    pages = [
        tag(
            "details",
            f"<summary>{badge(rule.cls, rule.code)} {text(rule.title)}</summary>"
            f"<pre>{text(rule.explain().partition(chr(10) * 2)[2])}</pre>",
            class_="rule",
            id=rule.code,
        )
        for rule in all_rules()
        if rule.code in codes
    ]
    return f"<section><h2>What the rules do</h2>{''.join(pages)}</section>" if pages else ""
