"""The report of an audit as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mdstorm_migrate.audit import EFFORTS, MINUTES, Audit, FeatureUse, FileAudit
from mdstorm_migrate.report.data import conditions_in_json, write_report
from mdstorm_migrate.report.text import before_running
from mdstorm_migrate.rules import find_rule


def audit_to_text(audit: Audit) -> str:
    """Return tables for a terminal, and the files to review."""
    features = [
        (use.feature, f"{use.files:,}", f"{use.uses:,}", names_of(use)) for use in audit.features()
    ]
    efforts = [
        (f"{count:,}", EFFORTS[effort]) for effort, count in audit.efforts().items() if count
    ]
    rules = [
        (code, cls, f"{count:,}", getattr(find_rule(code), "title", ""))
        for (code, cls), count in audit.found().items()
    ]
    if not (audit.files or audit.errors):
        return "no scanned file uses Petastorm\n"
    parts = [
        _table(("feature", "files", "uses", "names used"), features),
        _table(("files", "what they need"), efforts),
        _table(("rule", "class", "places", "title"), rules),
        _by_hand(audit),
        "".join(f"{line}\n" for line in before_running(audit.conditions)),
        f"manual work left: about {duration(audit.minutes())}\n{estimate_note()}\n",
    ]
    return "\n".join(filter(None, parts))


def _by_hand(audit: Audit) -> str:
    """Name the files that are not migrated by a command alone."""
    lines = []
    for file in audit.files:
        if file.problems:
            lines += [f"  {file.path.as_posix()}: {problem}" for problem in file.problems]
        elif file.effort in ("manual", "review"):
            lines.append(f"  {file.path.as_posix()}: {_what(file)}")
    lines += [f"  {one.path.as_posix()}: {one.reason}" for one in audit.errors]
    return "\n".join(["files to review", *lines, ""]) if lines else ""


def _what(file: FileAudit) -> str:
    found = ((code, cls, n) for (code, cls), n in sorted(file.found.items()))
    return ", ".join(
        f"{code} {cls}" + (f" ({n:,} places)" if n > 1 else "")
        for code, cls, n in found
        if cls in ("manual", "review")
    )


def names_of(use: FeatureUse, most: int = 4) -> str:
    """Return the names that are used the most."""
    names = sorted(use.names.items(), key=lambda entry: (-entry[1], entry[0]))
    shown = ", ".join(f"{name} {count:,}" for name, count in names[:most])
    return f"{shown}, …" if len(names) > most else shown


def duration(minutes: int) -> str:
    """Return minutes in readable units, rounded as an estimate should be."""
    if minutes < 60:
        return f"{minutes} minutes"
    hours = minutes / 60
    return f"{hours:.1f} hours" if hours < 10 else f"{hours:,.0f} hours"


def estimate_note() -> str:
    """Say what the estimate is made of."""
    return (
        f"(a rough estimate: {MINUTES['review']} minutes per file with edits to review, "
        f"{MINUTES['manual']} per place that needs manual review, {MINUTES['problem']} per file "
        "that cannot be read; running and testing the result not included)"
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns under their heads; those of numbers are flush right. Empty without rows."""
    if not rows:
        return ""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    numbers = [all(cell[:1].isdigit() for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in (head, *rows):
        cells = (
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, numbers, strict=True)
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def audit_to_json(audit: Audit) -> str:
    """Return an audit as JSON, as ``report/assets/audit.schema.json`` describes it."""
    return write_report(
        "mdstorm audit",
        audit.skipped,
        features=[
            {
                "feature": use.feature,
                "files": use.files,
                "uses": use.uses,
                "names": dict(sorted(use.names.items())),
            }
            for use in audit.features()
        ],
        efforts=audit.efforts(),
        estimate={"minutes": audit.minutes(), "per_item": MINUTES},
        files=[_file(file) for file in audit.files],
        conditions=conditions_in_json(audit.conditions),
    )


def _file(file: FileAudit) -> dict[str, Any]:
    rules: Counter[str] = Counter()
    for (code, _), count in sorted(file.found.items()):
        rules[code] += count
    return {
        "path": file.path.as_posix(),
        "effort": file.effort,
        "features": [
            {"feature": feature, "name": name, "uses": count}
            for (feature, name), count in sorted(file.features.items())
        ],
        "classes": {cls: file.count(cls) for cls in ("exact", "review", "manual", "note")},
        "rules": rules,
        "problems": list(file.problems),
    }
