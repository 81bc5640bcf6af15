"""The content of reports, the machine-readable formats, and the options that request them."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.kit.migrating import each, invoke, schema_of
from tests.unit.migrate.report.reports import MIXED, report_of, report_of_text

from mdstorm_migrate import migrate
from mdstorm_migrate.base.edits import Finding, Lines
from mdstorm_migrate.cli.audit import audit
from mdstorm_migrate.cli.migrate import migrate as command
from mdstorm_migrate.environment import Condition
from mdstorm_migrate.report.content import FileReport, Region
from mdstorm_migrate.report.data import to_json, to_sarif
from mdstorm_migrate.report.formats import FORMATS
from mdstorm_migrate.report.text import to_text
from mdstorm_migrate.rules import find_rule

BROKEN = "import petastorm\nprint 'x'\n"

invoked = partial(invoke, command)


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed, with: blanks %.py").write_text(MIXED)
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    (tmp_path / "link.py").symlink_to(tmp_path)  # a link to a folder is skipped without an error
    return tmp_path


def test_json_report_matches_schema(in_folder: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of("report"))
    found = json.loads(to_json(report_of(in_folder)))
    jsonschema.validate(found, schema_of("report"))
    broken, mixed = found["files"]
    assert broken["problems"][0]["line"] == 2
    assert not broken["edits"]
    assert [one["class"] for one in mixed["edits"]] == ["exact"]
    assert [one["class"] for one in mixed["findings"]] == ["review", "manual", "note"]
    assert mixed["diff"].startswith("--- a/")
    assert found["totals"]["failed"] == 2
    assert found["skipped"][0]["error"] is True
    assert [rule["code"] for rule in found["rules"]] == ["PM101", "PM103", "PM107", "PM109"]


def test_applying_edits_from_json_report_yields_migrated_text(in_folder: Path) -> None:
    text = "é = 'petastorm'\nimport petastorm as p\nfrom petastorm import make_reader\n"
    found = json.loads(to_json(report_of_text(in_folder, text, "x.py")))
    file = next(one for one in found["files"] if one["path"].endswith("x.py"))
    for edit in reversed(file["edits"]):
        text = text[: edit["start"]] + edit["replacement"] + text[edit["stop"] :]
    assert text.count("mdstorm") == 2


def run_of(text: str) -> dict[str, Any]:
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert isinstance(run, dict)
    return run


def test_sarif_report_has_rules_results_and_failures(in_folder: Path) -> None:
    run = run_of(to_sarif(report_of(in_folder)))
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["PM101", "PM103", "PM107", "PM109"]
    for rule in rules:
        explained = find_rule(rule["id"])
        assert explained is not None
        assert rule["help"]["markdown"] == explained.explain()
        assert rule["name"].isidentifier()
        assert not rule["fullDescription"]["text"].startswith("Class:")
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("note", "warning")
        assert result["message"]["text"]
        assert len(result["partialFingerprints"]["mdstormMigrate/v1"]) == 16
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"] == {
            "uri": "mixed%2C%20with%3A%20blanks%20%25.py",
            "uriBaseId": "SRCROOT",
        }
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert len(invocation["toolExecutionNotifications"]) == 2


def test_applying_fixes_from_sarif_report_yields_migrated_text(in_folder: Path) -> None:
    path = next(in_folder.glob("mixed*"))
    text = path.read_text()
    lines = Lines(text)
    for result in reversed(run_of(to_sarif(report_of(in_folder)))["results"]):
        for fix in result.get("fixes", ()):
            (change,) = fix["artifactChanges"][0]["replacements"]
            where = change["deletedRegion"]
            start = lines.starts[where["startLine"] - 1] + where["startColumn"] - 1
            stop = lines.starts[where["endLine"] - 1] + where["endColumn"] - 1
            text = text[:start] + change["insertedContent"]["text"] + text[stop:]
    assert text == migrate(path.read_text(), todo=False).output


def test_files_outside_working_directory_have_absolute_uris_in_sarif(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (result,) = run_of(to_sarif(report_of_text(tmp_path, "import petastorm as p\n")))["results"]
    address = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert address == {"uri": (tmp_path / "a.py").as_uri()}


@each(None, 2)
def test_environment_condition_in_sarif_has_line_unless_in_notebook_cell(
    cell: int | None, tmp_path: Path
) -> None:
    report = report_of(tmp_path)
    report.conditions.append(Condition("pin", "old", Path("a"), 3, cell))
    (notification,) = run_of(to_sarif(report))["invocations"][0]["toolExecutionNotifications"]
    region = notification["locations"][0]["physicalLocation"].get("region")
    assert region == (None if cell else {"startLine": 3})


def test_text_report_has_errors_diff_findings_and_summary_without_colours(in_folder: Path) -> None:
    text = to_text(report_of(in_folder))
    for part in ("gone.py: error:", "broken.py: error: line 2", "--- a/", "PM109 note", "1 file "):
        assert part in text
    assert "\x1b" not in text


def items_of(file: FileReport) -> list[tuple[str, str, str]]:
    return [(one.found.rule, one.found.cls, one.place) for one in file.items]


def test_todo_comment_and_its_finding_are_reported_as_one_item(tmp_path: Path) -> None:
    report = report_of_text(tmp_path, MIXED)
    (file,) = report.files
    assert [edit.cls for edit in file.edits].count("manual") == 1
    assert items_of(file) == [
        ("PM101", "exact", "1:6"),
        ("PM103", "review", "2:12"),
        ("PM107", "manual", "3:33"),
        ("PM109", "note", "5:1"),
    ]
    assert [(rule.code, count) for rule, count in report.rules()] == [
        (code, 1) for code, _, _ in items_of(file)
    ]
    manual = next(one for one in file.items if one.found.cls == "manual")
    assert isinstance(manual.found, Finding)
    assert manual.text == manual.found.remedy


def test_notebook_items_have_line_numbers_in_file_and_cell(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": ["x = 1\n", "import petastorm"], "metadata": {}}
    notebook = json.dumps({"cells": [cell], "nbformat": 4}, indent=1)
    (file,) = report_of_text(tmp_path, notebook, "n.ipynb").files
    (item,) = file.items
    assert item.place == "cell 1:2:8"
    line = notebook.splitlines()[item.region.line - 1]
    assert line[item.region.column - 1 : item.region.end_column - 1] == "petastorm"


def test_byte_order_mark_does_not_count_as_column(tmp_path: Path) -> None:
    (file,) = report_of_text(tmp_path, b"\xef\xbb\xbfimport petastorm as p\n").files
    assert file.items[0].region == Region(1, 8, 1, 22)
    assert file.before.startswith("import")
    assert file.after.startswith("import mdstorm")


def test_fingerprints_are_stable_and_distinct(tmp_path: Path) -> None:
    twice = "from petastorm import make_reader\n" * 2
    first = report_of_text(tmp_path, twice).files[0].items
    moved = report_of_text(tmp_path, f"import os\n\n{twice}").files[0].items
    assert [one.fingerprint for one in first] == [one.fingerprint for one in moved]
    assert len({one.fingerprint for one in first}) == 2


def test_fingerprint_is_the_same_after_migration(tmp_path: Path) -> None:
    text = "from petastorm import make_reader\nif x:\n    r = make_reader(url, shuffel=True)\n"
    (before,) = (i for _, i in report_of_text(tmp_path, text).items() if i.found.cls == "manual")
    report_of(tmp_path, write=True)
    ((_, after),) = report_of(tmp_path).items()
    assert isinstance(after.found, Finding)
    assert after.found.is_open_todo
    assert after.fingerprint == before.fingerprint


def test_report_lists_problems_and_no_edits_for_unwritable_file(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("# %%\nimport petastorm as p\n# %%\nprint petastorm.x\n")
    path.chmod(0o444)
    report = report_of(tmp_path, write=True)
    (file,) = report.files
    assert not file.edits
    assert not file.items
    assert report.totals.exact == 0
    assert [one.line for one in file.problems] == [4, None]
    assert "read-only" in str(file.problems[1])


BEGINNINGS = {
    "text": "--- a/",
    "json": '{\n  "version": 1,',
    "html": "<!DOCTYPE html>",
    "sarif": '{\n  "$schema": ',
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(MIXED)
    return tmp_path / "src"


@each(*FORMATS)
def test_report_without_file_name_is_printed_instead_of_diff(format_: str, source: Path) -> None:
    result = invoked("--format", format_, source)
    assert result.exit_code == 0
    assert result.stdout.startswith(BEGINNINGS[format_])
    assert result.stdout.count("\n--- a/") == 0
    assert "1 file would change" in result.stderr
    assert "1 file would change" not in result.stdout


def test_several_reports_are_written_and_diff_is_printed(source: Path, tmp_path: Path) -> None:
    names = {"r.json": "json", "r.HTML": "html", "r.sarif.json": "sarif", "r.txt": "text"}
    names |= {"a.diff": "text", "a.htm": "html", "A.SARIF": "sarif"}
    result = invoked(*(f"--report={tmp_path / name}" for name in names), source)
    assert result.stdout.startswith("--- a/")
    for name, format_ in names.items():
        assert (tmp_path / name).read_text().startswith(BEGINNINGS[format_])


def test_reports_from_earlier_runs_are_not_scanned(source: Path) -> None:
    (source / "Dockerfile").write_text("RUN pip install petastorm==0.12\n")
    (source / "b.py").write_text("from petastorm import make_reader\n")
    reports = [source / name for name in ("r.json", "r.sarif.json", "audit.json")]
    invoked(*(f"--report={report}" for report in reports[:2]), source)
    invoke(audit, f"--report={reports[2]}", source)
    written = [report.read_bytes() for report in reports]
    assert b"pip install petastorm" in written[0]

    result = invoked("-w", "--no-diff", source)
    assert "r.json" not in result.stderr
    assert "3 files changed" in result.stderr
    assert [report.read_bytes() for report in reports] == written
    assert "Definitions of clusters" not in invoke(audit, source).stdout


def test_report_with_write_option_lists_written_files(source: Path, tmp_path: Path) -> None:
    assert invoked("--check", "--report", tmp_path / "r.json", source).exit_code == 1
    assert json.loads((tmp_path / "r.json").read_text())["write"] is False
    assert invoked("-w", "-q", "--no-diff", "--report", tmp_path / "r.json", source).exit_code == 0
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["write"] is True
    assert found["files"][0]["written"] is True
    assert "+from mdstorm import make_reader" in found["files"][0]["diff"]


@each(
    ["--report", "r"],
    ["--report", "r.xml"],
    ["--report", "gone/r.json"],
    ["--report", "src", "--format", "json"],
    ["--report", "r.json", "--report", "r.html", "--format", "json"],
)
def test_invalid_report_options_fail_before_any_write(
    options: list[str], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoked("-w", *options, source)
    assert result.exit_code == 2
    assert (source / "a.py").read_text() == MIXED


def test_unwritable_report_fails_the_run(source: Path) -> None:
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("/dev/full does not exist")
    result = invoked("--format", "json", "--report", device, source)
    assert result.exit_code == 3
    assert "/dev/full: error: not written: No space left on device" in result.stderr


def test_file_name_that_is_not_utf8_is_escaped(source: Path, tmp_path: Path) -> None:
    (source / "\udcff.py").write_text("import petastorm as p\n")
    for format_ in ("json", "html", "sarif"):
        invoked("-q", "--no-diff", "--report", tmp_path / "r.txt", "--format", format_, source)
        (tmp_path / "r.txt").read_text("utf-8")
    assert "%FF.py" in (tmp_path / "r.txt").read_text("utf-8")
