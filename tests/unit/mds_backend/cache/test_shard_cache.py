"""Shards are downloaded once, verified and reused; the cache only changes its own files."""

import errno
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.unit.mds_backend.cache import shards
from tests.unit.mds_backend.cache.shards import (
    COMPRESSIONS,
    Storage,
    cache,
    contents,
    files_in,
    make_shards,
)

from mdstorm_backend.cache import download
from mdstorm_backend.cache.directory import FileIdentity
from mdstorm_backend.errors import (
    CorruptDatasetError,
    CredentialsError,
    DatasetNotFoundError,
    StorageError,
)


def overwrite(path: Path, content: bytes) -> None:
    """Change a file without changing its timestamps."""
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("validate_hash", [None, "sha1"])
def test_kept_compressed_file_is_used_unless_damaged(
    validate_hash: str | None, source: Path, local: Path, storage: Storage
) -> None:
    (info,) = make_shards(source, 1, compression="zstd")
    files = cache(source, directory=local, keep_zip=True, validate_hash=validate_hash)
    files.open(info)
    raw, packed = local / info.raw_data.basename, local / info.stored.basename
    assert files_in(local) == [raw.name, packed.name]
    for downloads in (1, 2):
        raw.unlink()
        assert bytes(files.open(info)) == contents([info])[0]
        assert set(storage.downloads.values()) == {downloads}
        assert packed.read_bytes() == (source / packed.name).read_bytes()
        overwrite(packed, b"x" * info.stored.bytes)


def test_shard_is_published_after_its_compressed_file(
    source: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (info,) = make_shards(source, 1, compression="zstd")
    files, put = cache(source, directory=local, keep_zip=True), os.replace

    def put_one(part: str, path: str) -> None:
        if files_in(local):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        put(part, path)

    with monkeypatch.context() as broken:
        broken.setattr("mdstorm_backend.cache.shard_cache.os.replace", put_one)
        with pytest.raises(StorageError, match="Input/output"):
            files.open(info)
    assert bytes(files.open(info)) == contents([info])[0]
    assert files_in(local) == [info.raw_data.basename, info.stored.basename]


@pytest.mark.parametrize("keep_zip", [False, True])
def test_directory_filled_by_another_reader_is_used_unchanged(
    keep_zip: bool, source: Path, local: Path, storage: Storage
) -> None:
    infos = make_shards(local, 1, compression="zstd") + make_shards(local, 2)[1:]
    before = {path: FileIdentity.at(str(path)) for path in local.iterdir()}
    files = cache(source, directory=local, keep_zip=keep_zip, limit=5000)
    assert [bytes(files.open(info)) for info in infos] == contents(infos)
    assert not storage.downloads
    assert {path: FileIdentity.at(str(path)) for path in before} == before


@COMPRESSIONS
def test_foreign_file_with_wrong_size_raises_error_and_is_not_removed(
    compression: str | None, source: Path, local: Path
) -> None:
    (info,) = make_shards(source, 1, compression=compression)
    local.mkdir()
    for name in {info.raw_data.basename, info.stored.basename}:
        (local / name).write_bytes(b"mine")
        with pytest.raises(CorruptDatasetError, match=f"{name} holds 4 bytes.*remove it"):
            cache(source, directory=local, keep_zip=True).open(info)
        assert (local / name).read_bytes() == b"mine"
        (local / name).unlink()


@COMPRESSIONS
@pytest.mark.parametrize("size", [0, 400])
def test_truncated_cached_shard_is_downloaded_again(
    compression: str | None, size: int, source: Path, local: Path, storage: Storage
) -> None:
    infos = make_shards(source, compression=compression)
    for fill in (True, False):  # first a file of the cache, then a user's partial copy
        path = local / infos[1].raw_data.basename
        if fill:
            assert [bytes(cache(source, directory=local).open(info)) for info in infos]
            os.truncate(path, size)
        else:
            path.unlink()
            path.write_bytes(contents(infos)[1][:size])
        storage.downloads.clear()
        files = cache(source, directory=local)
        assert [bytes(files.open(info)) for info in infos] == contents(infos)
        assert sum(storage.downloads.values()) == 1


@COMPRESSIONS
def test_files_cached_under_an_old_fingerprint_are_downloaded_again(
    compression: str | None, source: Path, local: Path
) -> None:
    (old,) = make_shards(source, 1, compression=compression)
    cache(source, directory=local, keep_zip=True).open(old)
    (new,) = make_shards(source, 1, compression=compression, seed=1)
    for was, now in ((old.raw_data, new.raw_data), (old.zip_data, new.zip_data)):
        assert was is None or now is None or was.bytes == now.bytes
    files = cache(source, directory=local, fingerprint="other", keep_zip=True)
    assert bytes(files.open(new)) == contents([new], seed=1)[0]
    assert bytes(files.open(new)) == contents([new], seed=1)[0]


@pytest.mark.parametrize("keep_zip", [False, True])
@COMPRESSIONS
def test_damaged_cached_shard_is_downloaded_again(
    compression: str | None, keep_zip: bool, source: Path, local: Path, storage: Storage
) -> None:
    for options in ({}, {"directory": local}):
        (bad,) = make_shards(source, 1, compression=compression, hashes=[], seed=1)
        files = cache(source, keep_zip=keep_zip, **options)
        files.open(bad)
        (good,) = make_shards(source, 1, compression=compression, hashes=[])
        assert good == bad
        assert files.discard(good)
        assert bytes(files.open(good)) == contents([good])[0]
        assert set(storage.downloads.values()) == {2}
        storage.reset()


@COMPRESSIONS
@pytest.mark.parametrize(
    "fails",
    [
        (shards.truncated, CorruptDatasetError, r"bytes, but the index records.*\(2 attempts\)"),
        (shards.damaged, CorruptDatasetError, r"has the sha1 .* but the index .*\(2 attempts\)"),
        (shards.disconnected, StorageError, r"after 2 attempts.*Connection reset.*download_retry"),
        (shards.refused, CredentialsError, "Access Denied"),
        (shards.disk_full, StorageError, "No space left on device.*MDSTORM_CACHE_DIR"),
    ],
    ids=lambda fails: fails[0].__name__,
)
def test_persistently_failing_download_raises_error_and_leaves_no_files(
    fails: Any, compression: str | None, source: Path, local: Path, storage: Storage
) -> None:
    fault, error, text = fails
    (info,) = make_shards(source, 1, compression=compression)
    storage.faults += [fault, fault]
    files = cache(source, directory=local, validate_hash="sha1")
    with pytest.raises(error, match=text):
        files.open(info)
    assert [*files_in(local), *shards.parts_in(local)] == []
    storage.faults.clear()
    assert bytes(files.open(info)) == contents([info])[0]


def test_pauses_between_download_attempts_double(
    source: Path, local: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (info,) = make_shards(source, 1)
    storage.faults += [shards.disconnected] * 4
    pauses: list[float] = []
    monkeypatch.setattr(download.time, "sleep", pauses.append)
    cache(source, directory=local, retry=5).open(info)
    for base, pause in zip([1, 2, 4, 8], pauses, strict=True):
        assert base <= pause <= 1.5 * base


@COMPRESSIONS
@pytest.mark.parametrize("is_directory", [False, True])
def test_missing_shard_raises_error_without_retries(
    is_directory: bool, compression: str | None, source: Path, local: Path, storage: Storage
) -> None:
    (info,) = make_shards(source, 1, compression=compression)
    name = info.stored.basename
    (source / name).unlink()
    if is_directory:
        (source / name).mkdir()
    with pytest.raises(DatasetNotFoundError, match=f"{name} is {'a dir' * is_directory or 'gone'}"):
        cache(source, directory=local, retry=5).open(info)
    assert storage.downloads[name] == 1
    assert shards.parts_in(local) == []


def test_hanging_download_times_out(source: Path, local: Path, storage: Storage) -> None:
    (info,) = make_shards(source, 1)
    release = threading.Event()
    storage.faults += [lambda source, target: release.wait(60) and None] * 2
    text = r"after 2 attempts \(no data was received for 0\.05 s\)"
    with pytest.raises(StorageError, match=text):
        cache(source, directory=local, timeout=0.05).open(info)
    release.set()
    assert bytes(cache(source, directory=local).open(info)) == contents([info])[0]


def test_undecodable_compressed_file_raises_error_and_is_removed(source: Path, local: Path) -> None:
    (info,) = make_shards(source, 1, compression="zstd")
    (source / info.stored.basename).write_bytes(b"x" * info.stored.bytes)
    with pytest.raises(CorruptDatasetError, match=f"{info.stored.basename} cannot be decompr"):
        cache(source, directory=local, keep_zip=True).open(info)
    assert [*files_in(local), *shards.parts_in(local)] == []


@COMPRESSIONS
def test_file_downloaded_without_validation_is_later_validated_once(
    compression: str | None, source: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (info,) = make_shards(source, 1, compression=compression, hashes=["md5", "sha1"])
    cache(source, directory=local).open(info)
    content = contents([info])[0][:-1] + b"?"
    overwrite(local / info.raw_data.basename, content)
    # Without validation, the damaged file is returned. Validation replaces it and runs only once.
    assert bytes(cache(source, directory=local).open(info)) == content
    checked = cache(source, directory=local, validate_hash="sha1")
    assert bytes(checked.open(info)) == contents([info])[0]
    assert set(shards.RemoteFileSystem.downloads.values()) == {2}
    monkeypatch.delattr("mdstorm_backend.cache.download.check_hash")
    assert bytes(checked.open(info)) == contents([info])[0]


def test_damaged_file_is_removed_if_the_shard_cannot_be_downloaded_again(
    source: Path, local: Path
) -> None:
    (info,) = make_shards(source, 1)
    cache(source, directory=local).open(info)
    overwrite(local / info.raw_data.basename, b"x" * info.raw_data.bytes)
    (source / info.raw_data.basename).unlink()
    with pytest.raises(DatasetNotFoundError, match=info.raw_data.basename):
        cache(source, directory=local, validate_hash="sha1").open(info)
    assert files_in(local) == []


@pytest.mark.parametrize("replaces", [False, True], ids=["alone", "for one that was checked"])
def test_damaged_foreign_file_raises_error_and_is_not_removed(
    replaces: bool, source: Path, local: Path
) -> None:
    (info,) = make_shards(source, 1)
    local.mkdir()
    if replaces:
        cache(source, directory=local, validate_hash="sha1").open(info)
        (local / info.raw_data.basename).unlink()
    shards.damaged(str(source / info.raw_data.basename), str(local / info.raw_data.basename))
    with pytest.raises(CorruptDatasetError, match=f"{local}.* has the sha1"):
        cache(source, directory=local, validate_hash="sha1").open(info)
    assert files_in(local) == [info.raw_data.basename]


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", ".mdstorm/x", "", "a\\..\\..\\x"])
def test_shard_names_outside_the_directory_raise_error(
    name: str, source: Path, local: Path
) -> None:
    (info,) = make_shards(source, 1)
    bad = info._replace(raw_data=info.raw_data._replace(basename=name))
    with pytest.raises(CorruptDatasetError, match="outside the dataset"):
        cache(source, directory=local).open(bad)


def test_threads_share_one_download_and_fetch_shards_in_parallel(
    source: Path, local: Path, storage: Storage
) -> None:
    infos = make_shards(source, 4)
    together = threading.Barrier(4, timeout=60)

    def meeting(source: str, target: str) -> None:
        together.wait()  # fails unless four downloads run at the same time
        shards.no_fault(source, target)

    storage.faults += [meeting] * 4
    caches = [cache(source, directory=local) for _ in range(2)]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda i: bytes(caches[i % 2].open(infos[i // 4])), range(16)))
    assert found == [content for content in contents(infos) for _ in range(4)]
    assert storage.downloads == Counter(info.raw_data.basename for info in infos)


def test_unwritable_cache_directory_is_read_but_raises_error_on_writing(
    source: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (info,) = make_shards(source, 1)
    files = cache(source, directory=local)
    files.open(info)
    for name in ("os.makedirs", "os.unlink"):
        monkeypatch.setattr(name, shards.refused)
    assert not files.discard(info)
    other = local.with_name("other")
    with pytest.raises(StorageError, match=f"{other} cannot be used.*Access Denied.*local="):
        cache(source, directory=other).open(info)
