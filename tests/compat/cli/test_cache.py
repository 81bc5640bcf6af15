import json
from pathlib import Path

import pytest
from tests.compat.cli.conftest import run
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.datasets.dataset import open_dataset


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """URLs of two datasets that have been read, the first one earlier, and so are cached."""
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "400")
    urls = []
    for name in ("one", "two"):
        dataset = write_numbers(tmp_path / name, 300, compression="zstd")
        assert len(open_dataset(dataset.url).to_table()) == 300
        urls.append(dataset.url)
    return urls


def listed(*options: object) -> list[str]:
    found = json.loads(run("cache", "ls", "--format", "json", *options).stdout)
    return [one["url"] for one in found]


def test_cached_datasets_are_listed(cached: list[str], tmp_path: Path) -> None:
    result = run("cache", "ls")
    assert result.exit_code == 0
    assert all(url in result.stdout for url in cached)
    assert " of 2 datasets, " in result.stdout.splitlines()[-1]
    found = json.loads(run("cache", "ls", "--format", "json").stdout)
    assert sorted(one["url"] for one in found) == cached
    for one in found:
        assert Path(one["directory"]).parent == tmp_path / "cache"
        assert one["shards"] > 1
        assert one["bytes"] > 1000
        assert one["last_use"].endswith("+00:00")


def test_a_directory_may_be_named(cached: list[str], tmp_path: Path) -> None:
    assert sorted(listed("--directory", tmp_path / "cache")) == cached
    assert sorted(listed("--directory", f"file://{tmp_path}/cache")) == cached
    for command in ("ls", "clear"):
        refused = run("cache", command, "--directory", tmp_path / "nothing")
        assert (refused.exit_code, refused.stdout) == (3, "")
        assert f"there is nothing at file://{tmp_path}/nothing" in refused.stderr


def test_clearing_asks_before(cached: list[str]) -> None:
    refused = run("cache", "clear", input="n\n")
    assert refused.exit_code == 1
    assert "of 2 datasets" in refused.stderr
    assert sorted(listed()) == cached
    assert run("cache", "clear", input="y\n").exit_code == 0
    assert listed() == []


def test_one_dataset_is_cleared(cached: list[str]) -> None:
    one, two = cached
    result = run("cache", "clear", one, "--yes")
    assert result.exit_code == 0
    assert result.stdout.startswith("removed ")
    assert listed() == [two]
    assert len(open_dataset(one).to_table()) == 300


def test_nothing_to_clear_is_no_error(tmp_path: Path) -> None:
    result = run("cache", "clear", "--directory", tmp_path)
    assert (result.exit_code, result.stderr) == (0, "nothing is cached\n")
