"""``mdstorm verify`` of a dataset alone, and ``mdstorm reindex``."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compat.cli.running import run

from mdstorm_backend import MDSWriter


def damage(dataset: Path) -> str:
    """Cut a shard off and return its name."""
    file = sorted(dataset.glob("*.mds"))[1]
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[:-1])
    return file.name


def test_a_good_dataset_is_told_so(dataset: Path) -> None:
    result = run("verify", dataset)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"file://{dataset}: everything can be read; without hashes, ")
    assert "300 rows" in result.stdout
    assert "the files are all there" in run("verify", dataset, "--quick").stdout


def test_only_hashes_prove_that_no_value_has_changed(tmp_path: Path) -> None:
    for name, hashes in (("plain", []), ("hashed", ["sha1"])):
        dataset = tmp_path / name
        with MDSWriter(out=str(dataset), columns={"number": "int64"}, hashes=hashes) as writer:
            writer.write({"number": 1})
        assert ("is as it was written" in run("verify", dataset).stdout) == bool(hashes)
        report = json.loads(run("verify", dataset, "--format", "json").stdout)
        assert report["has_hashes"] == bool(hashes)
        (file,) = dataset.glob("*.mds")
        data = file.read_bytes()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        result = run("verify", dataset)
        assert result.exit_code == bool(hashes)
        assert ("changed values cannot be seen" in result.stdout) != bool(hashes)


def test_json_holds_the_report(dataset: Path) -> None:
    name = damage(dataset)
    (dataset / "shard.00000.mds").write_bytes(b"x")
    result = run("verify", dataset, "--format", "json")
    assert result.exit_code == 1
    value = json.loads(result.stdout)
    assert value["is_good"] is False
    assert [problem["file"] for problem in value["problems"]] == [name]
    assert value["notes"] == [{"file": "shard.00000.mds", "problem": "is not in the index"}]


@pytest.mark.parametrize("options", [["--threads", "2"], ["--quick"]])
def test_problems_are_listed_without_colours_and_are_the_exit_code_of_the_process(
    dataset: Path, options: list[str]
) -> None:
    name = damage(dataset)
    command = [sys.executable, "-W", "error", "-m", "mdstorm", "verify", dataset, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (1, "")
    assert name in done.stdout
    assert "and the index says" in done.stdout
    assert ": 1 problem (" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_lost_index_is_rebuilt(dataset: Path) -> None:
    index = dataset / "index.json"
    before = index.read_bytes()
    index.unlink()
    result = run("reindex", dataset)
    assert result.exit_code == 0
    assert "with 300 rows" in result.stdout
    assert f"mdstorm verify file://{dataset}" in result.stdout
    assert index.read_bytes() == before


def test_oddities_are_warnings_beside_the_content(dataset: Path) -> None:
    sorted(dataset.glob("*.mds"))[1].unlink()
    result = run("reindex", dataset, "--force", "--format", "json")
    assert result.stderr.startswith("warning: part-00000-0.00001.mds is missing")
    value = json.loads(result.stdout)
    assert value["replaced"] is True
    assert len(value["notes"]) == 1


def test_the_command_that_comes_next_can_be_copied(dataset: Path) -> None:
    moved = dataset.rename(dataset.parent / "my data")
    (moved / "index.json").unlink()
    assert f"mdstorm verify 'file://{moved}'" in run("reindex", moved).stdout
