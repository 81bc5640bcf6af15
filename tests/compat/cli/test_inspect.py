import json
from pathlib import Path

from tests.compat.cli.running import run

from mdstorm_backend.maintenance.inspect import inspect


def test_tables_describe_the_dataset(dataset: Path) -> None:
    result = run("inspect", dataset)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"file://{dataset}\n")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "rows 300" in lines
    assert "number int64 long yes 0 0" in lines
    assert "text str string yes 1 0" in lines
    assert result.stderr == ""


def test_json_is_what_the_function_returns(dataset: Path) -> None:
    result = run("inspect", dataset, "--format", "json")
    assert json.loads(result.stdout) == inspect(str(dataset)).to_json()
    assert run("inspect", dataset, "--json").stdout == result.stdout
