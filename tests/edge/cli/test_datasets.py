"""``mdstorm inspect``, ``head``, ``verify`` without ``--against``, and ``reindex``."""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from click.testing import Result
from tests.edge.cli.conftest import run
from tests.kit.damage import GOLDEN, GOLDEN_NAMES
from tests.kit.small_datasets import array_of, write_dataset

from mdstorm_backend import MDSWriter
from mdstorm_backend.maintenance.inspect import inspect


def cells(result: Result) -> list[str]:
    return [" ".join(line.split()) for line in result.stdout.splitlines() if line.strip()]


def test_inspect_command_prints_result_of_inspect_function_as_table_or_json(dataset: Path) -> None:
    result = run("inspect", dataset)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"file://{dataset}\n")
    columns = {"number int64 long yes 0 0", "text str string yes 1 0"}
    lines = {"rows 300", "logical schema yes", *columns}
    assert lines <= {*cells(result)}
    result = run("inspect", dataset, "--format", "json")
    assert json.loads(result.stdout) == inspect(str(dataset)).to_json()


def test_head_shows_five_rows_or_the_requested_rows(dataset: Path) -> None:
    result = run("head", dataset)
    assert result.exit_code == 0
    found = cells(result)
    assert found[1] == "number text"
    assert found[3:] == ["0 text 0", "1 null", "2 text 2", "3 text 3", "4 text 4"]
    result = run("head", dataset, "-n", 2, "--columns", "text, number")
    assert cells(result)[1:2] + cells(result)[3:] == ["text number", "text 0 0", "null 1"]
    assert len(json.loads(run("head", dataset, "-n", 100, "--format", "json").stdout)) > 5
    assert cells(run("head", dataset, "-n", 0))[1] == "number text"
    assert json.loads(run("head", dataset, "-n", 0, "--format", "json").stdout) == []


def test_head_truncates_long_values_and_replaces_line_breaks_in_table(tmp_path: Path) -> None:
    write_dataset(tmp_path, {"a": ["x" * 1000, "one\ntwo", "[bold]"]}, {"a": "string"})
    found = cells(run("head", tmp_path))
    assert found[3:] == ["x" * 59 + "…", "one two", "[bold]"]


def test_json_output_represents_every_value(tmp_path: Path) -> None:
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
def test_head_shows_rows_from_mosaicml_streaming_datasets(directory: str) -> None:
    assert run("head", GOLDEN / directory, "-n", 3).exit_code == 0
    assert run("head", GOLDEN / directory, "-n", 3, "--format", "json").exit_code == 0


def damage(dataset: Path) -> str:
    """Truncate a shard file and return its name."""
    file = sorted(dataset.glob("*.mds"))[1]
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[:-1])
    return file.name


def test_verify_reports_success_for_an_intact_dataset(dataset: Path) -> None:
    result = run("verify", dataset)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"file://{dataset}: everything can be read; without hashes, ")
    assert "300 rows" in result.stdout
    assert "all files are present" in run("verify", dataset, "--quick").stdout


def test_verify_reports_unchanged_values_only_if_index_has_hashes(tmp_path: Path) -> None:
    for name, hashes in (("plain", []), ("hashed", ["sha1"])):
        dataset = tmp_path / name
        with MDSWriter(out=str(dataset), columns={"number": "int64"}, hashes=hashes) as writer:
            writer.write({"number": 1})
        assert ("is unchanged since it was written" in run("verify", dataset).stdout) == bool(
            hashes
        )
        report = json.loads(run("verify", dataset, "--format", "json").stdout)
        assert report["has_hashes"] == bool(hashes)
        (file,) = dataset.glob("*.mds")
        data = file.read_bytes()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        result = run("verify", dataset)
        assert result.exit_code == bool(hashes)
        assert ("changed values cannot be detected" in result.stdout) != bool(hashes)


def test_verify_json_contains_the_report(dataset: Path) -> None:
    name = damage(dataset)
    (dataset / "shard.00000.mds").write_bytes(b"x")
    result = run("verify", dataset, "--format", "json")
    assert result.exit_code == 1
    value = json.loads(result.stdout)
    assert value["is_good"] is False
    assert [problem["file"] for problem in value["problems"]] == [name]
    assert value["notes"] == [{"file": "shard.00000.mds", "problem": "is not in the index"}]


@pytest.mark.long
@pytest.mark.parametrize("options", [["--threads", "2"], ["--quick"]])
def test_verify_lists_problems_without_colours_and_exits_with_1(
    dataset: Path, options: list[str]
) -> None:
    name = damage(dataset)
    command = [sys.executable, "-W", "error", "-m", "mdstorm", "verify", dataset, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert name in done.stdout
    assert "but the index records" in done.stdout
    assert ": 1 problem (" in done.stdout
    assert "\x1b" not in done.stdout


def test_reindex_rebuilds_a_lost_index_and_shows_the_next_command(dataset: Path) -> None:
    moved = dataset.rename(dataset.parent / "my data")
    index = moved / "index.json"
    before = index.read_bytes()
    index.unlink()
    result = run("reindex", moved)
    assert result.exit_code == 0
    assert "with 300 rows" in result.stdout
    assert f"mdstorm verify 'file://{moved}'" in result.stdout
    assert index.read_bytes() == before


def test_reindex_with_missing_shard_prints_warning(dataset: Path) -> None:
    sorted(dataset.glob("*.mds"))[1].unlink()
    result = run("reindex", dataset, "--force", "--format", "json")
    assert result.stderr.startswith("warning: part-00000-0.00001.mds is missing")
    value = json.loads(result.stdout)
    assert value["replaced"] is True
    assert len(value["notes"]) == 1
