"""Listing and clearing the cache; only files that the cache created are removed."""

import gc
import os
import tempfile
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.unit.mds_backend.cache.shards import (
    cache,
    contents,
    files_in,
    locked,
    make_shards,
    remote,
)

from mdstorm_backend.cache import CacheOptions, cache_root, check_cache_root, read_index
from mdstorm_backend.cache.directory import CacheDirectory
from mdstorm_backend.cache.space import clear_cached, list_cached
from mdstorm_backend.errors import StorageError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "default cache"


def test_cached_datasets_are_listed_with_sizes_in_order_of_last_use(
    source: Path,
) -> None:
    for number, name in enumerate(["b", "a", "c"]):
        infos = make_shards(source / name, number + 1)
        for info in infos:
            cache(source / name).open(info)
        (found,) = [entry for entry in list_cached() if entry.url.endswith(name)]
        for info in infos:
            os.utime(CacheDirectory(found.directory).record(info.raw_data.basename), (9, number))
    found = list_cached()
    assert [(e.url, e.shards, e.bytes) for e in found] == [
        (f"faulty://{source}/b", 1, 1000),
        (f"faulty://{source}/a", 2, 2000),
        (f"faulty://{source}/c", 3, 3000),
    ]
    assert found[2].last_use == datetime.fromtimestamp(2, timezone.utc)


def test_clear_cached_removes_one_dataset_or_all_datasets(source: Path, root: Path) -> None:
    assert (list_cached(), clear_cached()) == ([], 0)
    for name in ("a", "b"):
        for info in make_shards(source / name, 2):
            cache(source / name).open(info)
    assert clear_cached(url=f"faulty://{source}/a/") == 2000
    assert [entry.url for entry in list_cached()] == [f"faulty://{source}/b"]
    assert clear_cached() == 2000
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("is_read", [False, True])
def test_cache_of_replaced_dataset_is_removed_unless_in_use(
    is_read: bool, source: Path, root: Path
) -> None:
    for name in ("a", "b"):
        (info,) = make_shards(source / name, 1)
        files = cache(source / name)
        held = files.open(info)
    if is_read:
        files = cache(source / "b")
        files.open(info)  # as if another process had downloaded it
    else:
        del files
    gc.collect()
    cache(source / "b", fingerprint="other").open(info)
    assert bytes(held) == contents([info])[0]
    found = [entry.url.rpartition("/")[2] for entry in list_cached()]
    assert sorted(found) == (["a", "b", "b"] if is_read else ["a", "b"])
    assert clear_cached() == 1000 * len(found)
    assert list(root.iterdir()) == []


def test_failure_to_remove_cache_of_replaced_dataset_is_logged(
    source: Path, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (info,) = make_shards(source, 1)
    cache(source).open(info)
    gc.collect()
    (outdated,) = list_cached()
    unlink = os.unlink

    def refused(path: str, **options: Any) -> None:
        if str(path).startswith(outdated.directory):
            raise PermissionError("Access Denied")
        unlink(path, **options)

    monkeypatch.setattr(os, "unlink", refused)
    assert bytes(cache(source, fingerprint="other").open(info)) == contents([info])[0]
    assert "cannot be removed (Access Denied)" in caplog.text
    assert len(list_cached()) == 2


@pytest.mark.parametrize("replaced", [False, True])
def test_clearing_a_given_cache_directory_keeps_other_files(
    replaced: bool, source: Path, local: Path
) -> None:
    infos = make_shards(source / "0", 2)
    (source / "0" / "index.json").write_text('{"shards": [], "version": 2}')
    make_shards(local, 1)
    (local / "notes.txt").write_text("mine")
    (local / "empty").mkdir()
    files = cache(source / "0", directory=local)
    for info in infos:
        files.open(info)
    read_index(remote(source / "0"), CacheOptions(directory=str(local)))
    assert [entry.shards for entry in list_cached(str(local))] == [1]
    if replaced:  # a user's file replaces the cached index
        (local / "index.json").unlink()
        (local / "index.json").write_text("mine")
    assert clear_cached(str(local)) == 1000
    others = ["index.json"] * replaced + ["notes.txt", infos[0].raw_data.basename]
    assert files_in(local) == others
    assert (local / "empty").is_dir()
    assert not (local / ".mdstorm").exists()


def test_lock_timeout_is_not_reported_as_a_full_disk(
    source: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (info,) = make_shards(source, 1)
    cache(source, directory=local).open(info)
    (source / "index.json").write_text('{"shards": [], "version": 2}')
    monkeypatch.setattr("mdstorm_backend.cache.directory.LEDGER_PATIENCE", 0.0)
    options = CacheOptions(directory=str(local))
    with locked(CacheDirectory(str(local)).ledger):
        for use in (lambda: read_index(remote(source), options), lambda: clear_cached(str(local))):
            with pytest.raises(StorageError, match=r"has held .* Kill the process that hangs$"):
                use()


def test_clearing_cache_keeps_shards_being_downloaded(source: Path, root: Path) -> None:
    infos = make_shards(source, 2)
    for info in infos:
        cache(source).open(info)
    (entry,) = list_cached()
    with locked(CacheDirectory(entry.directory).record(infos[0].raw_data.basename)):
        assert clear_cached() == 1000
    assert [entry.shards for entry in list_cached()] == [1]
    assert clear_cached() == 1000
    assert list(root.iterdir()) == []


def test_shard_downloaded_while_clearing_cache_stays_listed(
    source: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (info,) = make_shards(source, 1)
    files = cache(source)
    files.open(info)
    with monkeypatch.context() as patch:
        name = "mdstorm_backend.cache.space.remove_stale_parts"
        patch.setattr(name, lambda directory: files.open(info))
        assert clear_cached() == 1000
    assert [(entry.shards, entry.bytes) for entry in list_cached()] == [(1, 1000)]
    assert clear_cached() == 1000
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "is_private"), [(0o700, True), (0o755, True), (0o775, False), (0o702, False)]
)
def test_default_root_that_others_can_write_to_raises_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_private: bool
) -> None:
    monkeypatch.delenv("MDSTORM_CACHE_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    check_cache_root()  # which does not exist yet
    Path(cache_root()).mkdir()
    Path(cache_root()).chmod(mode)
    refused = pytest.raises(PermissionError, match="or another user owns it or can write to it")
    with nullcontext() if is_private else refused:
        check_cache_root()
