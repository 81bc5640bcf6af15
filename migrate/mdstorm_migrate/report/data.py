"""The report as JSON, as ``report/assets/report.schema.json`` describes it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from importlib import resources
from typing import Any

from mdstorm_migrate.base.edits import Edit, Finding, unified_diff
from mdstorm_migrate.environment import Condition
from mdstorm_migrate.report.content import FileReport, Item, Report, tool_version
from mdstorm_migrate.rules import all_rules
from mdstorm_migrate.run.discover import Skipped
from mdstorm_migrate.run.outcome import Settings

#: Counts up when something that is in a report changes its name or its meaning.
_VERSION = 1


def to_json(report: Report) -> str:
    """Return a run as JSON."""
    counts = report.rules()
    return write_report(
        "mdstorm migrate",
        report.skipped,
        settings=_settings(report.settings),
        write=report.write,
        totals=asdict(report.totals),
        rules=[
            {
                "code": rule.code,
                "title": rule.title,
                "class": rule.cls,
                "items": counts[rule.code],
            }
            for rule in all_rules()
            if rule.code in counts
        ],
        files=[_file(file) for file in report.files],
        conditions=conditions_in_json(report.conditions),
    )


def write_report(command: str, skipped: Iterable[Skipped], **content: object) -> str:
    """Return the report of a command as JSON: what all have in common, and its own content."""
    return write_json(
        {
            "version": _VERSION,
            "tool": {"name": command, "version": tool_version()},
            **content,
            "skipped": [
                {"path": one.path.as_posix(), "reason": one.reason, "error": one.is_error}
                for one in skipped
            ],
        }
    )


def conditions_in_json(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """Return what has to be seen to before the code runs."""
    return [
        {
            "subject": one.subject,
            "message": one.message,
            "path": None if one.path is None else one.path.as_posix(),
            "line": one.line,
            "cell": one.cell,
        }
        for one in conditions
    ]


def write_json(value: object) -> str:
    """Return JSON that people can read as well."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def schema(name: str = "report") -> dict[str, Any]:
    """Return the JSON schema of a report, or of an ``"audit"``."""
    file = resources.files(__package__ or "") / "assets" / f"{name}.schema.json"
    found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return found


def _file(file: FileReport) -> dict[str, Any]:
    items = file.items
    return {
        "path": file.path,
        "changed": file.outcome.changed,
        "written": file.outcome.written,
        "edits": [_item(one) for one in items if isinstance(one.found, Edit)],
        "findings": [_item(one) for one in items if isinstance(one.found, Finding)],
        "problems": [asdict(problem) for problem in file.problems],
        "diff": unified_diff(file.before, file.after, file.path),
    }


def _todo(found: Finding) -> str | None:
    """Return whether a TODO comment stands for a finding, or is all that is left of one."""
    return "open" if found.is_open_todo else "marked" if found.is_marked else None


def _item(item: Item) -> dict[str, Any]:
    found = item.found
    one: dict[str, Any] = {
        "rule": found.rule,
        "class": found.cls,
        "message": found.message,
        "cell": found.cell,
        "line": found.line,
        "column": found.column,
        "region": asdict(item.region),
        "fingerprint": item.fingerprint,
    }
    if isinstance(found, Edit):
        return {**one, "start": found.start, "stop": found.stop, "replacement": found.replacement}
    return {**one, "remedy": found.remedy, "todo": _todo(found)}


def _settings(settings: Settings) -> dict[str, Any]:
    found = asdict(settings)
    del found["wanted"]
    return {**found, "requirement": str(settings.wanted)}
