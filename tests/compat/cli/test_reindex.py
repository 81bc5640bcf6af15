import json
from pathlib import Path

from tests.compat.cli.running import run


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
