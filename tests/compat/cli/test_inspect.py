"""``mdstorm inspect`` and ``mdstorm head``."""

import json
from datetime import date
from pathlib import Path

import pytest
from click.testing import Result
from tests.compat.cli.running import run
from tests.mds_backend.maintenance.damage import GOLDEN, GOLDEN_NAMES
from tests.mds_backend.small_datasets import array_of, write_dataset

from mdstorm_backend.maintenance.inspect import inspect


def cells(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.stdout.splitlines() if line.strip()]


def test_tables_describe_the_dataset(dataset: Path) -> None:
    result = run("inspect", dataset)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"file://{dataset}\n")
    lines = {"rows 300", "number int64 long yes 0 0", "text str string yes 1 0"}
    assert lines <= {*cells(result)}
    assert result.stderr == ""


def test_json_is_what_the_function_returns(dataset: Path) -> None:
    result = run("inspect", dataset, "--format", "json")
    assert json.loads(result.stdout) == inspect(str(dataset)).to_json()


def test_five_rows_are_shown(dataset: Path) -> None:
    result = run("head", dataset)
    assert result.exit_code == 0
    found = cells(result)
    assert found[1] == "number text"
    assert found[3:] == ["0 text 0", "1 null", "2 text 2", "3 text 3", "4 text 4"]


def test_rows_and_columns_are_chosen(dataset: Path) -> None:
    result = run("head", dataset, "-n", 2, "--columns", "text, number")
    assert cells(result)[1:2] + cells(result)[3:] == ["text number", "text 0 0", "null 1"]
    assert len(json.loads(run("head", dataset, "-n", 100, "--format", "json").stdout)) > 5


def test_columns_are_shown_without_rows(dataset: Path) -> None:
    assert cells(run("head", dataset, "-n", 0))[1] == "number text"
    assert json.loads(run("head", dataset, "-n", 0, "--format", "json").stdout) == []


def test_long_values_and_line_breaks_do_not_break_the_table(tmp_path: Path) -> None:
    write_dataset(tmp_path, {"a": ["x" * 1000, "one\ntwo", "[bold]"]}, {"a": "string"})
    found = cells(run("head", tmp_path))
    assert found[3:] == ["x" * 59 + "…", "one two", "[bold]"]


def test_json_has_a_form_of_every_value(tmp_path: Path) -> None:
    fields = {
        "b": "string",
        "a": "date",
        "pair": array_of("double"),
        "ragged": array_of("long"),
        "data": "binary",
        "x": "double",
    }
    rows = {
        "b": ["é", None],
        "a": [date(2020, 1, 2), None],
        "pair": [[1.0, float("nan")], [3.0, 4.0]],
        "ragged": [[1], [None, 2]],
        "data": [b"\xff", b""],
        "x": [float("-inf"), None],
    }
    write_dataset(tmp_path, rows, fields)
    assert json.loads(run("head", tmp_path, "--format", "json").stdout) == [
        {"b": "é", "a": "2020-01-02", "pair": [1.0, "NaN"], "ragged": [1], "data": "/w==",
         "x": "-Infinity"},
        {"b": None, "a": None, "pair": [3.0, 4.0], "ragged": [None, 2], "data": "", "x": None},
    ]  # fmt: skip


@pytest.mark.parametrize("directory", GOLDEN_NAMES)
def test_rows_of_the_formats_own_library_are_shown(directory: str) -> None:
    assert run("head", GOLDEN / directory, "-n", 3).exit_code == 0
    assert run("head", GOLDEN / directory, "-n", 3, "--format", "json").exit_code == 0
