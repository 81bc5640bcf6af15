"""The report of an audit as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from mdstorm_migrate.audit.audit import EFFORTS, Audit, FileAudit
from mdstorm_migrate.report.audit import duration, estimate_note, names_of
from mdstorm_migrate.report.page import badge, page, prose, tag, text, tiles
from mdstorm_migrate.rules import find_rule

#: Efforts by the names of the colours that the page has for classes.
_COLOURS = {"none": "note"}


def audit_to_html(audit: Audit) -> str:
    """Return an audit as one HTML page, which fetches nothing and can be opened from a disk."""
    parts = [_header(audit), "<main>", _features(audit), _rules(audit), _files(audit), "</main>"]
    return page("Petastorm in this repository", "\n".join(parts))


def _header(audit: Audit) -> str:
    shown = tiles(
        "Files by what they need",
        (
            (_COLOURS.get(effort, effort), count, EFFORTS[effort])
            for effort, count in audit.efforts().items()
            if count
        ),
    )
    count = len(audit.files)
    files = "1 file uses" if count == 1 else f"{count:,} files use"
    return (
        f"<header><h1>Petastorm in this repository</h1>"
        f'<p class="quiet">{files} it. Nothing was changed.</p>'
        f"{shown}"
        f"<p>Manual work left: about <b>{text(duration(audit.minutes()))}</b>. "
        f'<span class="quiet">{text(estimate_note())}</span></p></header>'
    )


def _features(audit: Audit) -> str:
    rows = [
        [text(use.feature), f"{use.files:,}", f"{use.uses:,}", text(names_of(use, most=12))]
        for use in audit.features()
    ]
    return _table("What is used", ["Feature", "Files", "Uses", "Names used"], rows, (1, 2))


def _rules(audit: Audit) -> str:
    rows = [
        [badge(cls, cls), text(code), f"{count:,}", text(getattr(find_rule(code), "title", ""))]
        for (code, cls), count in audit.found().items()
    ]
    return _table("What there is to do", ["Class", "Rule", "Places", "Title"], rows, (2,))


def _files(audit: Audit) -> str:
    order = list(EFFORTS)
    files = sorted(audit.files, key=lambda file: order.index(file.effort))
    rows = [_file(file) for file in files]
    rows += [
        [badge("problem", "problem"), _path(one.path.as_posix()), "", prose(one.reason)]
        for one in audit.errors
    ]
    return _table("Files", ["Needs", "File", "Rules", "Features"], rows)


def _file(file: FileAudit) -> list[str]:
    rules = sorted({code for code, _ in file.found})
    features = sorted({feature for feature, _ in file.features})
    return [
        badge(_COLOURS.get(file.effort, file.effort), file.effort),
        _path(file.path.as_posix()),
        text(", ".join(rules)),
        prose("; ".join([*file.problems, *features])),
    ]


def _path(path: str) -> str:
    return tag("span", text(path), class_="path")


def _table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], counts: Sequence[int] = ()
) -> str:
    """Return a section with a table of cells that are HTML; nothing without rows."""
    if not rows:
        return ""

    def cells(name: str, row: Sequence[str]) -> str:
        scope = "col" if name == "th" else None
        return "".join(
            tag(name, cell, class_="count" if number in counts else None, scope=scope)
            for number, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<section><h2>{text(title)}</h2><div class="scroll"><table class="list">'
        f"<thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )
