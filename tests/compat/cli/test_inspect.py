"""``mdstorm inspect``."""

import json
from pathlib import Path

from click.testing import Result
from tests.compat.cli.running import run

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
