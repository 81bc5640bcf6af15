"""The identity of a frame, with a stand-in for the frame."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mdstorm._spark.copies import identify


def frame(*files: str, plan: int = 7, schema: str = "[]") -> Any:
    """A frame that remembers its first hash, as those of Spark Connect do."""
    fresh = SimpleNamespace(semanticHash=lambda: plan)
    return SimpleNamespace(
        select=lambda star: fresh,
        semanticHash=lambda: "stale",
        schema=SimpleNamespace(json=lambda: schema),
        inputFiles=lambda: list(files),
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "rows 100%.csv"
    path.write_text("1\n2\n")
    os.utime(path, (1000, 1000))
    return path


def url_of(path: Path) -> str:
    """The URL as Spark gives it."""
    return path.as_uri().replace("file:///", "file:/")


def test_the_order_of_files_does_not_matter(source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.touch()
    urls = [url_of(source), url_of(other)]
    assert identify(frame(*urls), {}) == identify(frame(*urls[::-1]), {})


@pytest.mark.parametrize("change", ["size", "time", "removed"])
def test_a_changed_file_is_another_source(source: Path, change: str) -> None:
    before = identify(frame(url_of(source)), {})
    if change == "size":
        source.write_text("1\n2\n3\n")
        os.utime(source, (1000, 1000))
    elif change == "time":
        os.utime(source, (2000, 2000))
    else:
        source.unlink()
    after = identify(frame(url_of(source)), {})
    assert all(one != other for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize(
    "url", ["file:/nowhere/x.csv", "hdfs://host:1/x.csv", "unknown://x/y.csv", "", "x.csv"]
)
def test_files_that_cannot_be_looked_at_count_by_name(url: str) -> None:
    content, source = identify(frame(url), {})
    assert (content, source) == identify(frame(url), {})
    assert source != identify(frame(url + "z"), {})[1]
