"""The options `--report` and `--format`."""

import json
from pathlib import Path, PurePath

import pytest
from click.testing import Result
from tests.migrate.checks import each, invoke
from tests.migrate.report.making import MIXED

from mdstorm_migrate.cli.audit import audit
from mdstorm_migrate.cli.migrate import migrate
from mdstorm_migrate.report.formats import FORMATS, find_format

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


def run(*arguments: object) -> Result:
    return invoke(migrate, *arguments)


@each(*FORMATS)
def test_without_a_file_the_report_is_printed_instead_of_the_diff(
    format_: str, source: Path
) -> None:
    result = run("--format", format_, source)
    assert result.exit_code == 0
    assert result.stdout.startswith(BEGINNINGS[format_])
    assert result.stdout.count("\n--- a/") == 0
    assert "1 file would change" in result.stderr


def test_several_reports_are_written_beside_the_diff(source: Path, tmp_path: Path) -> None:
    names = {"r.json": "json", "r.HTML": "html", "r.sarif.json": "sarif", "r.txt": "text"}
    result = run(*(f"--report={tmp_path / name}" for name in names), source)
    assert result.stdout.startswith("--- a/")
    for name, format_ in names.items():
        assert (tmp_path / name).read_text().startswith(BEGINNINGS[format_])


def test_reports_beside_the_code_are_not_looked_at(source: Path) -> None:
    (source / "Dockerfile").write_text("RUN pip install petastorm==0.12\n")
    (source / "b.py").write_text("from petastorm import make_reader\n")
    reports = [source / name for name in ("r.json", "r.sarif.json", "audit.json")]
    run(*(f"--report={report}" for report in reports[:2]), source)
    invoke(audit, f"--report={reports[2]}", source)
    written = [report.read_bytes() for report in reports]
    assert b"pip install petastorm" in written[0]

    result = run("-w", "--no-diff", source)
    assert "r.json" not in result.stderr
    assert "3 files changed" in result.stderr
    assert [report.read_bytes() for report in reports] == written
    assert "Definitions of clusters" not in invoke(audit, source).stdout


def test_the_report_of_a_run_that_writes_says_what_was_written(
    source: Path, tmp_path: Path
) -> None:
    assert run("--check", "--report", tmp_path / "r.json", source).exit_code == 1
    assert json.loads((tmp_path / "r.json").read_text())["write"] is False
    assert run("-w", "-q", "--no-diff", "--report", tmp_path / "r.json", source).exit_code == 0
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
def test_what_cannot_be_is_said_before_any_work(
    options: list[str], source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("-w", *options, source)
    assert result.exit_code == 2
    assert (source / "a.py").read_text() == MIXED


def test_a_report_that_cannot_be_written_fails_the_run(source: Path) -> None:
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("there is no device that is always full")
    result = run("--format", "json", "--report", device, source)
    assert result.exit_code == 3
    assert "/dev/full: error: not written: No space left on device" in result.stderr


@each(("a.diff", "text"), ("a.htm", "html"), ("A.SARIF", "sarif"))
def test_how_a_name_ends_says_the_format_unless_one_is_asked_for(name: str, format_: str) -> None:
    assert find_format(PurePath(name), None) == format_
    assert find_format(PurePath(name), "json") == "json"


def test_a_name_that_is_no_utf8_is_spelt(source: Path, tmp_path: Path) -> None:
    (source / "\udcff.py").write_text("import petastorm as p\n")
    for format_ in ("json", "html", "sarif"):
        run("-q", "--no-diff", "--report", tmp_path / "r", "--format", format_, source)
        (tmp_path / "r").read_text("utf-8")
    assert "%FF.py" in (tmp_path / "r").read_text("utf-8")
