"""What reports are made of."""

import json
from pathlib import Path

from tests.migrate.report.making import MIXED, report_of, report_of_text

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.report.content import FileReport, Region


def items_of(file: FileReport) -> list[tuple[str, str, str]]:
    return [(one.found.rule, one.found.cls, one.place) for one in file.items]


def test_a_todo_comment_counts_as_its_finding(tmp_path: Path) -> None:
    report = report_of_text(tmp_path, MIXED)
    (file,) = report.files
    assert [edit.cls for edit in file.edits].count("manual") == 1
    assert items_of(file) == [
        ("PM101", "exact", "1:6"),
        ("PM103", "review", "2:12"),
        ("PM107", "manual", "3:33"),
        ("PM109", "note", "5:1"),
    ]
    assert list(report.rules().items()) == [(rule, 1) for rule, _, _ in items_of(file)]
    manual = next(one for one in file.items if one.found.cls == "manual")
    assert isinstance(manual.found, Finding)
    assert manual.text == manual.found.remedy


def test_places_of_a_notebook_are_those_of_its_file_and_of_its_cell(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "source": ["x = 1\n", "import petastorm"], "metadata": {}}
    notebook = json.dumps({"cells": [cell], "nbformat": 4}, indent=1)
    (file,) = report_of_text(tmp_path, notebook, "n.ipynb").files
    (item,) = file.items
    assert item.place == "cell 1:2:8"
    line = notebook.splitlines()[item.region.line - 1]
    assert line[item.region.column - 1 : item.region.end_column - 1] == "petastorm"


def test_a_byte_order_mark_is_no_column(tmp_path: Path) -> None:
    (file,) = report_of_text(tmp_path, b"\xef\xbb\xbfimport petastorm as p\n").files
    assert file.items[0].region == Region(1, 8, 1, 22)
    assert file.before.startswith("import")
    assert file.after.startswith("import mdstorm")


def test_fingerprints_stay_when_lines_come_and_differ_between_places(tmp_path: Path) -> None:
    twice = "from petastorm import make_reader\n" * 2
    first = report_of_text(tmp_path, twice).files[0].items
    moved = report_of_text(tmp_path, f"import os\n\n{twice}").files[0].items
    assert [one.fingerprint for one in first] == [one.fingerprint for one in moved]
    assert len({one.fingerprint for one in first}) == 2


def test_a_tick_outlives_the_migration_of_the_file(tmp_path: Path) -> None:
    text = "from petastorm import make_reader\nif x:\n    r = make_reader(url, shuffel=True)\n"
    (before,) = (i for _, i in report_of_text(tmp_path, text).items() if i.found.cls == "manual")
    report_of(tmp_path, write=True)
    ((_, after),) = report_of(tmp_path).items()
    assert isinstance(after.found, Finding)
    assert after.found.is_open_todo
    assert after.fingerprint == before.fingerprint


def test_a_file_that_was_not_written_has_its_problems_and_no_edits(tmp_path: Path) -> None:
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
