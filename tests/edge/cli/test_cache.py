import json
from pathlib import Path

import pytest
from click.testing import Result
from tests.edge.cli.conftest import run
from tests.kit.kept import NAME, give_key, set_age, write_copy
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import open_dataset


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """URLs of two cached datasets, in the order they were read."""
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


def test_directory_option_selects_the_cache(cached: list[str], tmp_path: Path) -> None:
    assert sorted(listed("--directory", tmp_path / "cache")) == cached
    assert sorted(listed("--directory", f"file://{tmp_path}/cache")) == cached
    for command in ("ls", "clear"):
        refused = run("cache", command, "--directory", tmp_path / "nothing")
        assert (refused.exit_code, refused.stdout) == (3, "")
        assert f"there is nothing at file://{tmp_path}/nothing" in refused.stderr


def test_clear_asks_for_confirmation(cached: list[str]) -> None:
    refused = run("cache", "clear", input="n\n")
    assert refused.exit_code == 1
    assert "of 2 datasets" in refused.stderr
    assert sorted(listed()) == cached
    assert run("cache", "clear", input="y\n").exit_code == 0
    assert listed() == []


def test_clear_with_a_url_keeps_other_datasets(cached: list[str]) -> None:
    one, two = cached
    result = run("cache", "clear", one, "--yes")
    assert result.exit_code == 0
    assert result.stdout.startswith("removed ")
    assert listed() == [two]
    assert len(open_dataset(one).to_table()) == 300


def test_clearing_an_empty_cache_succeeds(tmp_path: Path) -> None:
    result = run("cache", "clear", "--directory", tmp_path)
    assert (result.exit_code, result.stderr) == (0, "nothing is cached\n")


class TestCopies:
    """``mdstorm cache`` with ``--parent``, for converted copies of DataFrames."""

    @pytest.fixture
    def copies(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """URLs of copies last used 30 days ago, 8 days ago (with a cache key), and just now."""
        monkeypatch.setenv("COLUMNS", "400")
        urls = [write_copy(tmp_path, number) for number in range(3)]
        for url, days in zip(urls, (30, 8, 0), strict=True):
            set_age(url, days * 86_400)
        give_key(tmp_path, "daily", urls[1])
        write_copy(tmp_path / "elsewhere", 1)
        (tmp_path / "notes.txt").touch()
        return urls

    def remove(self, tmp_path: Path, *options: str, **arguments: str) -> Result:
        command = ("cache", "rm", "--parent", tmp_path.as_uri(), "--unused", *options)
        return run(*command, **arguments)

    def test_ls_lists_copies_with_cache_key_and_last_use(
        self, copies: list[str], tmp_path: Path
    ) -> None:
        parent = tmp_path.as_uri()
        found = json.loads(run("cache", "ls", "--parent", parent, "--format", "json").stdout)
        assert [one["url"] for one in found] == copies
        assert [one["key"] for one in found] == [None, "daily", None]
        assert [one["is_in_use"] for one in found] == [False, False, True]
        assert [(one["shards"], one["bytes"]) for one in found] == [(1, 6)] * 3
        assert found[0]["converted"] == found[0]["last_use"] < found[1]["last_use"]
        table = run("cache", "ls", "--parent", parent).stdout
        assert [line.split()[-2] for line in table.splitlines() if NAME in line] == [
            "no", "no", "yes",
        ]  # fmt: skip
        assert table.splitlines()[-1] == "3 copies, 18 B"

    def test_rm_removes_unused_copies_older_than_the_given_age(
        self, copies: list[str], tmp_path: Path
    ) -> None:
        result = self.remove(tmp_path, "--older-than", "2w", "--yes")
        assert (result.exit_code, result.stdout) == (0, "removed 1 copy, 6 B\n")
        assert listed("--parent", tmp_path.as_uri()) == copies[1:]
        assert self.remove(tmp_path, "--yes").stdout == "removed 1 copy, 6 B\n"
        assert listed("--parent", tmp_path.as_uri()) == copies[2:]
        nothing = self.remove(tmp_path, "--yes")
        assert (nothing.exit_code, nothing.stdout) == (0, "")
        assert "no copies to remove" in nothing.stderr
        assert (tmp_path / "elsewhere" / f"{NAME}1" / "index.json").exists()

    def test_rm_asks_for_confirmation(
        self, copies: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        refused = self.remove(tmp_path, input="n\n")
        assert refused.exit_code == 1
        assert "Remove 2 copies, 12 B?" in refused.stderr
        assert len(listed("--parent", tmp_path.as_uri())) == 3
        monkeypatch.setenv("MDSTORM_PARENT_CACHE_DIR_URL", tmp_path.as_uri())
        assert run("cache", "rm", "--unused", input="y\n").exit_code == 0
        assert listed("--parent", tmp_path.as_uri()) == copies[2:]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--older-than", "7d"], "pass --unused"),
            (["--unused", "--older-than", "week"], "such as 7d"),
        ],
    )
    def test_rm_with_missing_or_invalid_options_removes_nothing(
        self, copies: list[str], tmp_path: Path, options: list[str], message: str
    ) -> None:
        refused = run("cache", "rm", "--parent", tmp_path.as_uri(), *options, "--yes")
        assert refused.exit_code == 2
        assert message in refused.stderr
        assert len(listed("--parent", tmp_path.as_uri())) == 3

    @pytest.mark.parametrize("command", [["ls"], ["rm", "--unused"]])
    def test_missing_parent_directory_prints_error(
        self, tmp_path: Path, command: list[str]
    ) -> None:
        refused = run("cache", *command, "--parent", f"{tmp_path.as_uri()}/nothing")
        assert refused.exit_code == 3
        assert f"there is nothing at {tmp_path.as_uri()}/nothing" in refused.stderr

    def test_damaged_cache_key_file_is_logged(
        self, copies: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "_mdstorm_cache_key_0").write_text("[]")
        found = json.loads(
            run("cache", "ls", "--parent", tmp_path.as_uri(), "--format", "json").stdout
        )
        assert [one["key"] for one in found] == [None, "daily", None]
        assert "_mdstorm_cache_key_0 cannot be read" in caplog.text
