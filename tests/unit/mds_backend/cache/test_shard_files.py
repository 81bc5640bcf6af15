"""Files read in place or through the cache, the cache options, and the cached index."""

import logging
import os
import pickle
import shutil
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.kit.small_datasets import write_ints
from tests.unit.mds_backend.cache import shards
from tests.unit.mds_backend.cache.shards import (
    COMPRESSIONS,
    FINGERPRINT,
    cache,
    contents,
    files_in,
    make_shards,
)

from mdstorm_backend import StreamingDataset, errors
from mdstorm_backend.cache import CacheOptions, read_index, shard_files
from mdstorm_backend.cache.directory import cache_root, default_directory
from mdstorm_backend.format.index import ShardInfo
from mdstorm_backend.storage import Location


@pytest.fixture(params=["disk", "memory"])
def location(request: pytest.FixtureRequest, source: Path) -> Iterator[Location]:
    yield Location.of(str(source) if request.param == "disk" else "memory://store/numbers")
    fsspec.filesystem("memory").store.clear()


def put(source: Path, location: Location, infos: list[ShardInfo]) -> None:
    """Copy the shards in `source` to `location`, unless it is the same directory."""
    if not location.is_local_disk:
        for info in infos:
            name = info.stored.basename
            location.write(name, [(source / name).read_bytes()])


@COMPRESSIONS
def test_local_files_are_read_in_place(
    compression: str | None, location: Location, source: Path
) -> None:
    infos = make_shards(source, compression=compression)
    put(source, location, infos)
    files = shard_files(location, FINGERPRINT, CacheOptions(validate_hash="sha1"))
    for _ in range(2):
        assert [bytes(files.open(info)) for info in infos] == contents(infos)
    again = pickle.loads(pickle.dumps(files))  # noqa: S301 - our own bytes
    assert bytes(again.open(infos[0])) == contents(infos)[0]


def test_uncompressed_files_on_disk_are_mapped_and_not_copied(source: Path, tmp_path: Path) -> None:
    infos = make_shards(source)
    files = shard_files(Location.of(str(source)), FINGERPRINT)
    assert isinstance(files.open(infos[0]), memoryview)
    assert not files.discard(infos[0])
    assert not (tmp_path / "default cache").exists()
    assert files_in(source) == [info.raw_data.basename for info in infos]


def test_compressed_files_on_disk_are_decompressed_once_and_not_copied(
    source: Path, tmp_path: Path
) -> None:
    (info,) = make_shards(source, 1, compression="zstd")
    files = shard_files(Location.of(str(source)), FINGERPRINT)
    directory = Path(default_directory(f"file://{source}", FINGERPRINT)).name
    for _ in range(2):
        assert bytes(files.open(info)) == contents([info])[0]
        assert files_in(tmp_path / "default cache") == [f"{directory}/{info.raw_data.basename}"]
        assert files.discard(info)
        assert files_in(tmp_path / "default cache") == []
    files.open(info)
    (source / info.stored.basename).unlink()
    assert bytes(files.open(info)) == contents([info])[0]


@pytest.mark.parametrize("keep_zip", [False, True])
@pytest.mark.parametrize("where", ["default", "beside", "elsewhere"])
def test_replaced_local_file_is_decompressed_again(
    where: str, keep_zip: bool, source: Path, local: Path
) -> None:
    directory = {"default": None, "beside": str(source), "elsewhere": str(local)}[where]
    (info,) = make_shards(source, 1, compression="zstd", hashes=[], seed=1)
    options = CacheOptions(directory=directory, keep_zip=keep_zip)
    files = shard_files(Location.of(str(source)), FINGERPRINT, options)
    assert bytes(files.open(info)) == contents([info], seed=1)[0]
    (same,) = make_shards(source / "new", 1, compression="zstd", hashes=[])
    assert same == info
    (source / "new" / info.stored.basename).replace(source / info.stored.basename)
    with pytest.raises(errors.DatasetChangedError, match="only its modification time differs"):
        files.open(info)
    assert (
        bytes(shard_files(Location.of(str(source)), FINGERPRINT, options).open(info))
        == (contents([info])[0])
    )


def test_replaced_file_raises_error_despite_its_uncompressed_copy(source: Path) -> None:
    (info,) = make_shards(source, 1, compression="zstd", hashes=[], seed=1)
    raw = source / info.raw_data.basename  # MosaicML Streaming keeps both
    raw.write_bytes(contents([info], seed=1)[0])
    files = shard_files(Location.of(str(source)), FINGERPRINT)
    assert bytes(files.open(info)) == contents([info], seed=1)[0]
    make_shards(source, 1, compression="zstd", hashes=[])
    raw.write_bytes(contents([info])[0])
    with pytest.raises(errors.DatasetChangedError, match=info.stored.basename):
        files.open(info)


@COMPRESSIONS
def test_missing_or_damaged_local_file_raises_error_naming_the_file(
    compression: str | None, location: Location, source: Path
) -> None:
    infos = make_shards(source, 3, compression=compression)
    for info, fault in zip(infos, (shards.truncated, shards.damaged), strict=False):
        path = str(source / info.stored.basename)
        fault(path, path)
    put(source, location, infos)
    name = infos[2].stored.basename
    location.remove(name)
    files = shard_files(location, FINGERPRINT, CacheOptions(validate_hash="sha1"))
    with pytest.raises(errors.CorruptDatasetError, match="bytes, but the index records"):
        files.open(infos[0])
    with pytest.raises(errors.CorruptDatasetError, match="has the sha1"):
        files.open(infos[1])
    with pytest.raises(errors.DatasetNotFoundError, match=f"{name} is gone"):
        files.open(infos[2])
    if location.is_local_disk:
        (source / name).mkdir()
        with pytest.raises(errors.DatasetNotFoundError, match=f"{name} is a directory"):
            files.open(infos[2])


@pytest.mark.parametrize(("hashes", "named"), [([], "no hashes"), (["md5"], r"\['md5'\]")])
def test_validating_a_hash_that_the_index_lacks_raises_error(
    hashes: list[str], named: str, location: Location, source: Path
) -> None:
    (info,) = make_shards(source, 1, hashes=hashes)
    put(source, location, [info])
    for place in (location, shards.remote(source)):
        files = shard_files(place, FINGERPRINT, CacheOptions(validate_hash="sha1"))
        text = f"validate_hash='sha1'.*records {named}"
        with pytest.raises(errors.InvalidArgumentError, match=text):
            files.open(info)


def test_default_cache_directory_depends_on_url_and_fingerprint() -> None:
    urls = "s3://a/x", "s3://b/x", "s3://b/.."
    places = {default_directory(url, fingerprint) for url in urls for fingerprint in "12"}
    assert len(places) == 6
    assert {os.path.dirname(place) for place in places} == {cache_root()}


def test_default_cache_directory_is_private_to_user(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MDSTORM_CACHE_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (info,) = make_shards(source, 1)
    cache(source).open(info)
    root = tmp_path / f"mdstorm-cache-{os.getuid()}"
    assert cache_root() == str(root)
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    # First a new directory under a world-writable root, then an existing directory under a
    # group-writable root.
    for fingerprint, mode in (("other", 0o702), (FINGERPRINT, 0o720)):
        root.chmod(mode)
        with pytest.raises(errors.StorageError, match=r"another user.*MDSTORM_CACHE_DIR"):
            cache(source, fingerprint=fingerprint).open(info)
        root.chmod(0o700)
        elsewhere = root.rename(tmp_path / "elsewhere")
        root.symlink_to(elsewhere)
        with pytest.raises(errors.StorageError, match=r"is a link.*MDSTORM_CACHE_DIR"):
            cache(source, fingerprint=fingerprint).open(info)
        root.unlink()
        elsewhere.rename(root)


def test_dataset_rewritten_with_identical_index_is_downloaded_again(
    source: Path, local: Path
) -> None:
    for directory in (None, local):
        (info,) = make_shards(source, 1, hashes=[])
        index = source / "index.json"
        index.write_text("the same")
        os.utime(index, (1, 1))
        options = {} if directory is None else {"directory": directory}
        assert bytes(cache(source, **options).open(info)) == contents([info])[0]
        (same,) = make_shards(source, 1, hashes=[], seed=1)
        assert same == info
        os.utime(index, (2, 2))
        assert bytes(cache(source, **options).open(info)) == contents([info], seed=1)[0]


@pytest.mark.parametrize("error", [ConnectionRefusedError, PermissionError])
def test_given_cache_directory_is_read_without_accessing_storage(
    error: type[OSError], source: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = make_shards(source)
    (source / "index.json").write_text("an index")
    files = cache(source, directory=local)
    for info in infos[:2]:
        files.open(info)

    def away(*_: object, **__: object) -> None:
        raise error("it is away")

    for name in ("info", "get_file"):
        monkeypatch.setattr(shards.RemoteFileSystem, name, away)
    again = cache(source, directory=local)
    assert [bytes(again.open(info)) for info in infos[:2]] == contents(infos)[:2]
    other = partial(cache, source, directory=local, fingerprint="other")
    for ask in (lambda: again.open(infos[2]), other, lambda: cache(source)):
        with pytest.raises((errors.CredentialsError, errors.StorageError), match="it is away"):
            ask()


def test_cache_limit_may_be_a_number_or_a_string_with_binary_units() -> None:
    texts = {"100": 100, "100b": 100, "1kb": 1024, " 10 KB ": 10240, "1.5mb": 3 << 19}
    sizes: dict[Any, int] = {1: 1, 2.0: 2, **texts, "1e2kb": 102400, "10gb": 10 << 30}
    for value, size in {**sizes, "2TB": 2 << 40}.items():
        assert CacheOptions(limit=value).limit == size
    for value in [0, -1, "", "0", "-1", "1 kbit", "many", "1..2kb", True, [], 1e400]:
        with pytest.raises(errors.InvalidArgumentError, match="limit must be a positive number"):
            CacheOptions(limit=value)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"retry": 0}, "retry must be an integer of at least 1"),
        ({"retry": 1.5}, "retry must be an integer"),
        ({"timeout": 0}, "timeout must be a positive number"),
        ({"timeout": float("nan")}, "timeout must be a positive number"),
        ({"validate_hash": "sha0"}, "sha0"),
        ({"directory": "s3://bucket/cache"}, "must be a local path, found 's3://bucket/cache'"),
    ],
)
def test_cache_options_out_of_range_raise_error(option: dict[str, Any], text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        CacheOptions(**option)


@pytest.fixture
def index(source: Path) -> Path:
    source.mkdir(parents=True)
    path = source / "index.json"
    path.write_text('{"shards": [], "version": 2}')
    return path


def read(source: Path, **options: Any) -> bytes:
    return read_index(shards.remote(source), CacheOptions(**options))[0]


def test_error_after_persistent_failure_names_file_and_cause(
    index: Path, storage: shards.Storage
) -> None:
    storage.faults += [shards.disconnected] * 2
    with pytest.raises(errors.StorageError, match=r"index\.json cannot be read after 2 attempts"):
        read(index.parent)
    storage.faults += [shards.refused]
    with pytest.raises(errors.CredentialsError, match="Access Denied"):
        read(index.parent)
    index.unlink()
    for _ in range(2):
        with pytest.raises(errors.DatasetNotFoundError, match=r"has no index\.json"):
            read(index.parent)
        index.mkdir(exist_ok=True)


def test_cache_directory_that_is_removed_during_a_download_is_named(
    storage: shards.Storage, source: Path, local: Path
) -> None:
    infos = make_shards(source)
    files = shard_files(shards.remote(source), FINGERPRINT, CacheOptions(directory=str(local)))

    def remove_cache(source: str, target: str) -> None:
        Path(target).write_bytes(Path(source).read_bytes())
        shutil.rmtree(local)

    storage.faults.append(remove_cache)
    with pytest.raises(errors.StorageError, match="Files in it were removed") as caught:
        files.open(infos[0])
    assert caught.value.url == str(local)
    assert bytes(files.open(infos[0])) == contents(infos)[0]


@pytest.mark.parametrize("fault", [shards.disconnected, shards.refused])
def test_cached_index_is_read_without_accessing_storage(
    fault: shards.Fault,
    index: Path,
    local: Path,
    storage: shards.Storage,
    caplog: pytest.LogCaptureFixture,
) -> None:
    read(index.parent, directory=str(local))
    storage.faults += [fault]
    with caplog.at_level(logging.WARNING):
        assert read(index.parent, directory=str(local), retry=1) == index.read_bytes()
    assert "reading the copy of the index" in caplog.text


def test_filled_cache_directory_is_read_after_the_dataset_was_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    remote, local = str(tmp_path / "remote"), str(tmp_path / "local")
    write_ints(remote, range(50), size_limit=300)
    for _ in range(2):  # the second time without records, as if another reader had filled the cache
        dataset = StreamingDataset(remote=remote, local=local, batch_size=1)
        assert [sample["n"] for sample in dataset] == list(range(50))
        shutil.rmtree(remote, ignore_errors=True)
        dataset = StreamingDataset(remote=remote, local=local, batch_size=1)
        assert [sample["n"] for sample in dataset] == list(range(50))
        assert "there is no dataset" in caplog.text
        shutil.rmtree(f"{local}/.mdstorm", ignore_errors=True)
    shutil.rmtree(local)
    with pytest.raises(errors.DatasetNotFoundError, match="there is no dataset"):
        StreamingDataset(remote=remote, local=local, batch_size=1)


def test_cached_index_of_a_different_dataset_is_not_used(index: Path, local: Path) -> None:
    read(index.parent, directory=str(local))
    with pytest.raises(errors.DatasetNotFoundError, match=r"other: it has no index\.json"):
        read(index.parent / "other", directory=str(local))


def test_changed_index_replaces_the_cached_copy(index: Path, local: Path) -> None:
    read(index.parent, directory=str(local))
    index.write_text('{"shards": [], "version": 2, "mdstorm": {}}')
    assert read(index.parent, directory=str(local)) == index.read_bytes()
    assert (local / "index.json").read_bytes() == index.read_bytes()


def test_foreign_index_in_the_cache_directory_is_not_replaced(index: Path, local: Path) -> None:
    local.mkdir()
    (local / "index.json").write_text("no JSON")
    with pytest.raises(
        errors.InvalidArgumentError, match=r"a different dataset.*Choose another dir"
    ):
        read(index.parent, directory=str(local))
    assert (local / "index.json").read_text() == "no JSON"
