from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from mdstorm_backend.storage import Location, has_scheme, normalize_url


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("/a/b", "file:///a/b"),
        ("/a/b/", "file:///a/b"),
        ("/a/b c%20#d?", "file:///a/b c%20#d?"),
        ("file:/a/b", "file:///a/b"),
        ("file:///a/b/", "file:///a/b"),
        ("FILE:///a/B", "file:///a/B"),
        ("dbfs:/a/b", "file:///dbfs/a/b"),
        ("dbfs:///a/b/", "file:///dbfs/a/b"),
        ("dbfs:/Volumes/c/s/v", "file:///Volumes/c/s/v"),
        ("/dbfs/a", "file:///dbfs/a"),
        ("/Volumes/c/s/v", "file:///Volumes/c/s/v"),
        ("s3://bucket/a/", "s3://bucket/a"),
        ("S3://Bucket/a", "s3://Bucket/a"),
        (
            "abfss://box@account.dfs.core.windows.net/a",
            "abfss://box@account.dfs.core.windows.net/a",
        ),
        ("hdfs:/a", "hdfs:/a"),
        ("memory://a", "memory://a"),
    ],
)
def test_a_url_has_one_spelling(url: str, normal: str) -> None:
    assert normalize_url(url) == normal
    assert normalize_url(normal) == normal


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("file:///a", True),
        ("dbfs:/a", True),
        ("s3://b/a", True),
        ("/Volumes/a", True),
        ("/dbfs/a", True),
        ("/Workspace/a", True),
        ("/a/b", False),
        ("a:b/c", True),
        ("/a:b", False),
        ("/Volumesx", False),
        ("relative/path", False),
        ("", False),
    ],
)
def test_a_scheme_or_a_mount_names_the_storage(url: str, expected: bool) -> None:
    assert has_scheme(url) is expected


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("/a", True),
        ("file:///a", True),
        ("dbfs:/a", False),
        ("/Volumes/c/s/v", False),
        ("/Workspace/x", False),
        ("memory://a", False),
    ],
)
def test_mounts_of_remote_storage_are_not_local_disks(url: str, local: bool) -> None:
    assert Location.of(url).is_local_disk is local


def test_a_file_that_appears_while_its_directory_is_removed_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = tmp_path / "data" / "below" / "late"
    late.parent.mkdir(parents=True)

    def find(*_: object, **__: object) -> list[str]:
        late.write_bytes(b"1")
        return []

    monkeypatch.setattr(LocalFileSystem, "find", find)
    Location.of(str(tmp_path / "data")).remove_directory_if_empty()
    assert late.read_bytes() == b"1"


def failing() -> Iterator[bytes]:
    yield b"the first half"
    raise RuntimeError("the source failed")


def test_a_write_that_fails_leaves_no_file_or_the_one_that_was_there(tmp_path: Path) -> None:
    location = Location.of(str(tmp_path))
    with pytest.raises(RuntimeError, match="the source failed"):
        location.write("x", failing())
    assert list(tmp_path.iterdir()) == []
    location.write("x", [b"before"])
    with pytest.raises(RuntimeError):
        location.write("x", failing())
    assert location.list_sizes() == [("x", 6)]


@pytest.mark.parametrize("name", ["with blank", "per%20cent", "hash#mark", "question?", "naïve"])
def test_paths_are_taken_literally(name: str, tmp_path: Path) -> None:
    location = Location.of(str(tmp_path / name))
    location.make_directory()
    location.write("x", [b"1"])
    assert (tmp_path / name / "x").read_bytes() == b"1"
    assert Location.of(location.url).read("x") == b"1"
