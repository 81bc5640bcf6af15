"""Files that a column names are retried, and kept within a limit while they are unchanged."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from tests.kit.small_datasets import write_dataset
from tests.unit.mds_backend.cache.shards import RemoteFileSystem, Storage, files_in

from mdstorm_backend import open_dataset
from mdstorm_backend.cache import CacheOptions, FetchedFiles, clear_cached, list_cached
from mdstorm_backend.errors import InvalidArgumentError, MissingFileError
from mdstorm_backend.storage import Location, NamedFiles


def fail(*_: str) -> None:
    raise OSError(errno.EIO, "the store failed")


def fetched(source: Path, max_bytes: int = 1000, **options: object) -> FetchedFiles:
    root = Location.of(f"faulty://{source}")
    files = NamedFiles(root, max_bytes=max_bytes)
    return FetchedFiles(files, CacheOptions(**options), root.url, "state")  # type: ignore[arg-type]


@pytest.fixture
def images(source: Path) -> Path:
    source.mkdir(parents=True)
    for number in range(10):
        (source / f"{number}.jpg").write_bytes(bytes([number]) * 100)
    return source


def test_failed_request_is_repeated_unless_repetition_cannot_help(
    images: Path, storage: Storage
) -> None:
    storage.faults += [fail]
    assert fetched(images).read("1.jpg") == bytes([1]) * 100
    with pytest.raises(MissingFileError):
        fetched(images, directory=None).read("no.jpg")
    with pytest.raises(InvalidArgumentError, match="max_file_bytes"):
        fetched(images, 99).read("1.jpg")


def test_copy_is_used_until_the_file_changes(images: Path, local: Path, storage: Storage) -> None:
    files = fetched(images, directory=str(local), retry=1)
    assert files.read("1.jpg") == bytes([1]) * 100
    storage.faults += [fail]
    assert files.read("1.jpg") == bytes([1]) * 100
    storage.faults.clear()
    (images / "1.jpg").write_bytes(bytes(100))
    os.utime(images / "1.jpg", (5, 5))
    assert files.read("1.jpg") == bytes(100)
    (images / "1.jpg").unlink()
    with pytest.raises(MissingFileError):
        files.read("1.jpg")


def test_damaged_copy_is_replaced(images: Path, local: Path) -> None:
    files = fetched(images, directory=str(local))
    files.read("1.jpg")
    (copy,) = (local / ".mdstorm-files").iterdir()
    copy.write_bytes(copy.read_bytes()[:-1] + b"x")
    assert files.read("1.jpg") == bytes([1]) * 100


def test_copies_stay_within_the_limit_and_are_cleared(images: Path, local: Path) -> None:
    local.mkdir()
    (local / "index.json").write_bytes(bytes(100))
    files = fetched(images, directory=str(local), limit=600)
    for number in range(10):
        assert files.read(f"{number}.jpg") == bytes([number]) * 100
    copies = [path.stat().st_size for path in (local / ".mdstorm-files").iterdir()]
    assert len(copies) >= 2
    assert sum(copies) <= 500
    (images / "large.jpg").write_bytes(bytes(600))
    assert files.read("large.jpg") == bytes(600)
    (found,) = list_cached(str(local))
    assert found.shards == len(copies)
    assert clear_cached(str(local)) == sum(copies)
    assert files_in(local) == ["index.json"]


def test_limit_alone_keeps_copies_in_the_default_directory(images: Path, tmp_path: Path) -> None:
    fetched(images).read("1.jpg")
    assert list_cached() == []
    fetched(images, limit=500).read("1.jpg")
    (found,) = list_cached()
    assert Path(found.directory).parent == tmp_path / "default cache"


def test_local_files_are_not_copied(images: Path, local: Path) -> None:
    files = NamedFiles(Location.of(images))
    read = FetchedFiles(files, CacheOptions(directory=str(local))).read
    assert read("1.jpg") == bytes([1]) * 100
    assert not local.exists()


def test_one_of_several_threads_fetches_a_file(
    images: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[str] = []
    read = RemoteFileSystem.cat_file

    def counted(self: RemoteFileSystem, path: str, *args: object, **more: object) -> bytes:
        requests.append(path)
        return read(self, path, *args, **more)

    monkeypatch.setattr(RemoteFileSystem, "cat_file", counted)
    start = Barrier(4)

    def fetch(_: int) -> bytes:
        files = fetched(images, directory=str(local))
        start.wait()
        return files.read("1.jpg")

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(fetch, range(4))) == {bytes([1]) * 100}
    assert len(requests) == 1


def test_directory_that_cannot_be_used_only_costs_the_copies(images: Path, local: Path) -> None:
    local.write_text("not a directory")
    assert fetched(images, directory=str(local)).read("1.jpg") == bytes([1]) * 100


def test_dataset_with_a_cache_directory_reads_copies_in_later_epochs(
    images: Path, local: Path, tmp_path: Path, storage: Storage
) -> None:
    table = {"path": [f"faulty://{images}/{number}.jpg" for number in range(10)]}
    write_dataset(tmp_path / "labels", table, {"path": "string"})
    dataset = open_dataset(
        f"{tmp_path}/labels",
        cache=CacheOptions(directory=str(local), retry=1),
        files={"image": "path"},
        files_below=[f"faulty://{images}"],
    )
    expected = [bytes([number]) * 100 for number in range(10)]
    assert dataset.to_table()["image"].to_pylist() == expected
    storage.faults += [fail] * 20  # of reads, not of requests for a file's version
    assert dataset.to_table()["image"].to_pylist() == expected
    assert len(storage.faults) == 20
