"""Reports for programs: JSON, described by the schemas in ``report/assets``, and SARIF 2.1.0."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mdstorm_migrate.audit import MINUTES, Audit, FileAudit
from mdstorm_migrate.base.edits import Class, Edit, Finding, unified_diff
from mdstorm_migrate.environment import Condition
from mdstorm_migrate.report.content import FileReport, Item, Region, Report, tool_version, uri
from mdstorm_migrate.rules import Rule, find_rule
from mdstorm_migrate.run.outcome import Settings

#: Incremented when the name or meaning of something in a report changes.
_VERSION = 1


def to_json(report: Report) -> str:
    """Return the report on a run as JSON."""
    return _write_report(
        "mdstorm migrate",
        report,
        settings=_settings(report.settings),
        write=report.write,
        totals=asdict(report.totals),
        rules=[
            {"code": rule.code, "title": rule.title, "class": rule.cls, "items": count}
            for rule, count in report.rules()
        ],
        files=[_file(file) for file in report.files],
        work=[_work(file, item) for file, item in report.items() if item.is_left],
    )


def _write_report(command: str, report: Report | Audit, **content: object) -> str:
    """Return a command's JSON report: the parts shared by all reports, and `content`."""
    return _write_json(
        {
            "version": _VERSION,
            "tool": {"name": command, "version": tool_version()},
            **content,
            "conditions": [
                {**asdict(one), "path": one.path and one.path.as_posix()}
                for one in report.conditions
            ],
            "skipped": [
                {"path": one.path.as_posix(), "reason": one.reason, "error": one.is_error}
                for one in report.skipped
            ],
        }
    )


def _write_json(value: object) -> str:
    """Return JSON that is indented for readability."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


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


def _work(file: FileReport, item: Item) -> dict[str, Any]:
    found, rule = item.found, find_rule(item.found.rule)
    return {
        "file": file.path,
        "cell": found.cell,
        "line": found.line,
        "rule": found.rule,
        "class": found.cls,
        "why": item.text,
        "recipe": rule and rule.recipe,
    }


def _todo(found: Finding) -> str | None:
    """Return ``"open"`` for an open TODO, ``"marked"`` for a finding with a comment, else None."""
    return "open" if found.is_open_todo else "marked" if found.is_marked else None


def _item(item: Item) -> dict[str, Any]:
    subject = item.found
    one: dict[str, Any] = {
        "rule": subject.rule,
        "class": subject.cls,
        "message": subject.message,
        "cell": subject.cell,
        "line": subject.line,
        "column": subject.column,
        "region": asdict(item.region),
        "fingerprint": item.fingerprint,
    }
    if isinstance(subject, Edit):
        return {
            **one,
            "start": subject.start,
            "stop": subject.stop,
            "replacement": subject.replacement,
        }
    return {**one, "remedy": subject.remedy, "todo": _todo(subject)}


def _settings(settings: Settings) -> dict[str, Any]:
    found = asdict(settings)
    del found["wanted"]
    return {**found, "requirement": str(settings.wanted)}


#: Name that stands for the root of the repository, which paths are relative to; programs that read
#: the report know where it is.
_BASE = "SRCROOT"


def to_sarif(report: Report) -> str:
    """Return the report on a run as a SARIF log with one run."""
    rules = [rule for rule, _ in report.rules()]
    codes = [rule.code for rule in rules]
    failed = [(file.outcome.path, str(one)) for file in report.files for one in file.problems]
    failed += [(one.path, one.reason) for one in report.skipped if one.is_error]
    failures = [_notification("error", reason, _location(path)) for path, reason in failed]
    run = {
        "tool": {
            "driver": {
                "name": "mdstorm migrate",
                "version": tool_version(),
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_BASE: {"description": {"text": "The root of the repository"}}},
        "invocations": [
            {
                "executionSuccessful": not failures,
                "toolExecutionNotifications": [*failures, *map(_condition, report.conditions)],
            }
        ],
        "results": [
            _result(file, item, codes.index(item.found.rule)) for file, item in report.items()
        ],
    }
    return _write_json(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [run],
        }
    )


def _result(file: FileReport, item: Item, rule: int) -> dict[str, Any]:
    """Return an item as a result of the rule with this number in the log."""
    subject = item.found
    location = _location(file.outcome.path, _region(item.region))
    result: dict[str, Any] = {
        "ruleId": subject.rule,
        "ruleIndex": rule,
        "level": _level(subject.cls),
        "message": {"text": item.text},
        "locations": [location],
        "partialFingerprints": {"mdstormMigrate/v1": item.fingerprint},
        "properties": {"class": subject.cls},
    }
    if subject.cell is not None:
        result["properties"] |= {"cell": subject.cell, "lineOfCell": subject.line}
    if item.replacement is not None:
        result["fixes"] = [_fix(location, item.replacement, subject.message)]
    return result


def _level(cls: Class) -> str:
    """Return the SARIF level of a class; ``error`` is only for files that could not be migrated."""
    return "note" if cls == "note" else "warning"


def _rule(rule: Rule) -> dict[str, Any]:
    page = rule.explain()
    _, _, paragraph, *_ = rule.prose.split("\n\n")
    return {
        "id": rule.code,
        "name": re.sub(r"\W", "", rule.title.title()),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": paragraph.replace("\n", " ")},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": _level(rule.cls)},
        "properties": {"class": rule.cls},
    }


def _location(path: Path, region: dict[str, int] | None = None) -> dict[str, Any]:
    address = uri(path)
    base = {} if address.startswith("file:") else {"uriBaseId": _BASE}
    place: dict[str, Any] = {"artifactLocation": {"uri": address, **base}}
    return {"physicalLocation": place if region is None else {**place, "region": region}}


def _region(region: Region) -> dict[str, int]:
    return {
        "startLine": region.line,
        "startColumn": region.column,
        "endLine": region.end_line,
        "endColumn": region.end_column,
    }


def _fix(location: dict[str, Any], replacement: str, message: str) -> dict[str, Any]:
    place = location["physicalLocation"]
    change = {"deletedRegion": place["region"], "insertedContent": {"text": replacement}}
    changes = {"artifactLocation": place["artifactLocation"], "replacements": [change]}
    return {"description": {"text": message}, "artifactChanges": [changes]}


def _condition(one: Condition) -> dict[str, Any]:
    """Return a condition as a notification."""
    if one.path is None:
        return _notification("warning", one.message)
    # In a notebook, lines are counted in each cell.
    region = {"startLine": one.line} if one.cell is None else None
    return _notification("warning", one.message, _location(one.path, region))


def _notification(level: str, text: str, *locations: dict[str, Any]) -> dict[str, Any]:
    found = {"level": level, "message": {"text": text}}
    return {**found, "locations": list(locations)} if locations else found


def audit_to_json(audit: Audit) -> str:
    """Return an audit as JSON, described by ``report/assets/audit.schema.json``."""
    return _write_report(
        "mdstorm audit",
        audit,
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
        files=[_audited(file) for file in audit.files],
    )


def _audited(file: FileAudit) -> dict[str, Any]:
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
