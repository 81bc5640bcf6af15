"""URLs are normalized or raise errors, secrets stay local, and files are written safely."""

import errno
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from mdstorm_backend import errors
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.storage import (
    Location,
    check_no_secrets,
    has_scheme,
    local_files,
    normalize_url,
    open_filesystem,
)
from mdstorm_backend.storage.filesystems import options_in_use
from mdstorm_backend.storage.stores.store import store_of


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
        ("abfss://box@me.dfs.core.windows.net/a", "abfss://box@me.dfs.core.windows.net/a"),
        ("hdfs:/a", "hdfs:/a"),
        ("memory://a", "memory://a"),
    ],
)
def test_equivalent_urls_have_one_normal_form(url: str, normal: str) -> None:
    assert normalize_url(url) == normal
    assert normalize_url(normal) == normal


def test_write_to_a_missing_bucket_raises_error_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    missing = {"filesystem": LocalFileSystem()}  # whose directories are the buckets
    with pytest.raises(FileNotFoundError, match="create s3://bucket, or check its name"):
        Location("s3://bucket/data", **missing).write("name", [b"x"])
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        Location("hdfs://host/data", **missing).write("name", [b"x"])


def test_has_scheme_is_true_for_mount_paths_and_urls_with_a_scheme() -> None:
    for url in (
        "file:///a",
        "dbfs:/a",
        "s3://b/a",
        "a:b/c",
        "/Volumes/a",
        "/dbfs/a",
        "/Workspace/a",
    ):
        assert has_scheme(url), url
    for url in ("/a/b", "/a:b", "/Volumesx", "relative/path", ""):
        assert not has_scheme(url), url


def test_mounts_of_remote_storage_are_not_local_disks() -> None:
    for url in ("/a", "file:///a"):
        assert Location.of(url).is_local_disk, url
    for url in ("dbfs:/a", "/Volumes/c/s/v", "/Workspace/x", "memory://a"):
        assert not Location.of(url).is_local_disk, url


@pytest.mark.parametrize(
    ("urls", "message"),
    [
        (("file:x/y", "file://host/x", "dbfs://bucket/x", "dbfs:x"), "write (file|dbfs):///"),
        (("s3://", "gs:", "memory:///"), "'{url}' is incomplete: write {url[0]}{url[1]}"),
        (("s3:///x", "s3a:/x/y", "gs:///x", "abfss:///x"), r"be of the form \w+://bucket/path"),
    ],
)
def test_incomplete_url_raises_error(urls: tuple[str, ...], message: str) -> None:
    for url in urls:
        with pytest.raises(errors.UnsupportedURLError, match=message.format(url=url)):
            Location.of(url)


@pytest.mark.parametrize("url", ["hdfs:///x", "hdfs://nowhere:1/x"])
def test_unreachable_hdfs_raises_name_node_error(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError("Unable to load libjvm\ndlopen(/usr/lib/jvm) failed\ndlopen(/x) failed")

    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
    text = r"\(Unable to load libjvm\). Set HADOOP_HOME"
    with pytest.raises(errors.NameNodeError, match=text) as raised:
        Location.of(url).list_names()
    assert isinstance(raised.value, (OSError, RuntimeError))
    assert ("does not name a name node" in str(raised.value)) == (url == "hdfs:///x")


@pytest.mark.parametrize(
    ("url", "instead"),
    [
        ("s3n://bucket/x", "write it as s3://bucket/path"),
        ("wasbs://c@a.blob.core.windows.net/x", "write it as abfss://container@account.dfs.core"),
        ("file://~/x", r"Write '~/x', or file:///home/me/x"),
        ("C:\\Data", "Windows path.* In WSL, the drive is /mnt/c"),
        ("c:/Data", "Windows path.* In WSL, the drive is /mnt/c"),
        ("nosuch://x", "another scheme that fsspec knows"),
    ],
)
def test_urls_from_other_tools_raise_errors_with_the_supported_spelling(
    monkeypatch: pytest.MonkeyPatch, url: str, instead: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    with pytest.raises(errors.UnsupportedURLError, match=instead) as caught:
        Location.of(url).list_names()
    assert repr(url) in str(caught.value)


@pytest.mark.parametrize(("scheme", "extra"), [("abfss", "azure"), ("oci", "oci"), ("gs", "gcs")])
@pytest.mark.parametrize("error", [ValueError, ImportError])
def test_missing_library_raises_error_naming_its_extra(
    monkeypatch: pytest.MonkeyPatch, scheme: str, extra: str, error: type[Exception]
) -> None:
    def unknown(protocol: str) -> None:
        raise error(f"Protocol not known: {protocol}")

    monkeypatch.setattr(fsspec, "get_filesystem_class", unknown)
    with pytest.raises(errors.MissingDependencyError, match=rf'pip install "mdstorm\[{extra}\]"'):
        Location.of(f"{scheme}://bucket/x").list_names()


@pytest.mark.parametrize(
    ("url", "is_version_aware"),
    [
        ("s3://arn:aws:s3:us-east-1:123456789012:accesspoint/points/x", False),
        ("s3://bucket/x.parquet?versionId=4", True),
    ],
)
def test_s3_url_may_contain_colons_or_a_version_id(url: str, is_version_aware: bool) -> None:
    protocol, options = options_in_use(url, {})
    assert protocol == "s3"
    assert ("version_aware" in options) == is_version_aware


def test_variables_of_a_store_apply_to_a_file_system_without_coroutines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Plain(MemoryFileSystem):
        protocol = "oci"
        cachable = False

    monkeypatch.setitem(_registry, "oci", Plain)
    by_variables = {"region": "by variable", "tenancy": "by variable"}
    store = store_of("oci://bucket/x")
    monkeypatch.setattr(
        type(store), "options_in_environment", lambda self, url, options: by_variables
    )
    fs, _ = open_filesystem("oci://bucket/x", {"region": "by caller"})
    assert fs.storage_options == {"region": "by caller", "tenancy": "by variable"}


def test_tilde_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert normalize_url("~/x y/") == "file:///home/me/x y"
    assert normalize_url("x/~").endswith("/x/~")
    assert CacheOptions(directory="~/x y").directory == "/home/me/x y"


def test_making_a_directory_on_a_missing_mount_without_api_raises_error() -> None:
    with pytest.raises(FileNotFoundError, match="/Workspace/ is not mounted"):
        Location.of("/Workspace/Users/me").make_directory()


def test_secret_in_a_url_raises_error_that_does_not_show_it() -> None:
    secrets = "me:s3cret@host/x", "host/x?sv=1&sig=s3cret", "host/x?X-Amz-Signature=s3cret&a=1"
    for url in (
        *(f"https://{secret}" for secret in secrets),
        "sftp://me:s3cret@host/x",
        "s3://me:s3cret@b/x",
    ):
        with pytest.raises(errors.InvalidArgumentError, match=r"\*\*\*.*storage_options") as caught:
            Location.of(url)
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"Secret": "s3cret", "anon": True},
        {"key": "s3cret"},
        {"Token": "s3cret"},
        {"password": "s3cret"},
        {"client_kwargs": {"aws_secret_access_key": "s3cret"}},
        {"connection_string": "AccountKey=s3cret"},
        {"sas_token": "s3cret"},
        {"proxy": "http://me:s3cret@proxy"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_secrets_in_storage_options_are_not_sent_pickled_or_shown(
    options: dict[str, object],
) -> None:
    for refuse in (
        lambda: check_no_secrets(options),
        lambda: pickle.dumps(Location("memory://x", options)),
    ):
        with pytest.raises(errors.InvalidArgumentError, match="their own credentials") as caught:
            refuse()
        assert "s3cret" not in str(caught.value)
    below = Location("memory://x", options).child("y")
    assert (below.storage_options, "s3cret" in repr(below)) == (options, False)


def test_file_created_while_its_directory_is_removed_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = tmp_path / "data" / "below" / "late"
    late.parent.mkdir(parents=True)

    def describe_files(*_: object) -> list[dict[str, object]]:
        late.write_bytes(b"1")
        return []

    monkeypatch.setattr(local_files, "describe_files", describe_files)
    Location.of(str(tmp_path / "data")).remove_directory_if_empty()
    assert late.read_bytes() == b"1"


def test_unlistable_directory_raises_error_rather_than_omitting_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("year=1", "year=2", "lost+found"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.parquet").touch()
    denied, list_directory = ["lost+found"], os.scandir

    def scandir(path: str) -> Any:
        if os.path.basename(path) in denied:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return list_directory(path)

    monkeypatch.setattr(os, "scandir", scandir)
    location = Location.of(str(tmp_path))
    assert location.list_names() == ["year=1/0.parquet", "year=2/0.parquet"]
    denied.append("year=2")
    with pytest.raises(errors.CredentialsError, match=r"year=2 cannot be listed \(Permission den"):
        location.list_names()


def remove(entry: "os.DirEntry[str]") -> dict[str, Any]:
    os.unlink(entry)
    raise FileNotFoundError(entry.path)


def describe_as_directory(entry: "os.DirEntry[str]") -> dict[str, Any]:
    """Describe a file as a directory, as if the file had replaced a directory in the meantime."""
    return {"type": "directory"}


@pytest.mark.parametrize("describe_changed", [remove, describe_as_directory])
def test_file_that_changes_during_listing_is_left_out_and_hides_no_other_files(
    describe_changed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / name).touch()
    describe = LocalFileSystem.info

    def info(fs: LocalFileSystem, path: Any, **options: Any) -> dict[str, Any]:
        if isinstance(path, os.DirEntry) and path.name == "b":
            return dict(describe_changed(path))
        return dict(describe(fs, path, **options))

    monkeypatch.setattr(LocalFileSystem, "info", info)
    assert Location.of(str(tmp_path)).list_names() == ["a", "c"]


def test_failed_write_keeps_previous_file_or_leaves_no_file(tmp_path: Path) -> None:
    def failing() -> Iterator[bytes]:
        yield b"the first half"
        raise RuntimeError("the source failed")

    location = Location.of(str(tmp_path))
    for before in ([], [("x", 6)]):
        with pytest.raises(RuntimeError, match="the source failed"):
            location.write("x", failing())
        assert location.list_sizes() == before
        location.write("x", [b"before"])


@pytest.mark.parametrize("name", ["with blank", "per%20cent", "hash#mark", "question?", "naïve"])
def test_special_characters_in_paths_are_literal(name: str, tmp_path: Path) -> None:
    location = Location.of(str(tmp_path / name))
    location.make_directory()
    location.write("x", [b"1"])
    assert (tmp_path / name / "x").read_bytes() == b"1"
    assert Location.of(location.url).read("x") == b"1"
