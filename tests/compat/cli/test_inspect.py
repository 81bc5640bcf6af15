"""``mdstorm inspect`` and ``mdstorm head``."""

import json
from pathlib import Path

from click.testing import Result
from tests.compat.cli.running import run
from tests.mds_backend.small_datasets import write_dataset

from mdstorm_backend.maintenance.inspect import inspect


def cells(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.stdout.splitlines() if line.strip()]


def test_five_rows_are_shown(dataset: Path) -> None:
    result = run("head", dataset)
    assert result.exit_code == 0
    found = cells(result)
    assert found[:2] == [f"file://{dataset}", "number text"]
    assert found[3:] == ["0 text 0", "1 null", "2 text 2", "3 text 3", "4 text 4"]


def test_rows_and_columns_are_chosen(dataset: Path) -> None:
    result = run("head", dataset, "-n", 2, "--columns", "text, number")
    assert cells(result)[1:2] + cells(result)[3:] == ["text number", "text 0 0", "null 1"]


def test_json_holds_the_rows(dataset: Path) -> None:
    result = run("head", dataset, "-n", "2", "--format", "json")
    assert json.loads(result.stdout) == [
        {"number": 0, "text": "text 0"},
        {"number": 1, "text": None},
    ]


def test_long_values_and_line_breaks_do_not_break_the_table(tmp_path: Path) -> None:
    write_dataset(tmp_path, {"a": ["x" * 1000, "one\ntwo", "[bold]"]}, {"a": "string"})
    found = cells(run("head", tmp_path))
    assert found[3:] == ["x" * 59 + "…", "one two", "[bold]"]


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
