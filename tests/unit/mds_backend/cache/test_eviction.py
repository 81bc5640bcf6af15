"""The cache stays within its limit by evicting its own least recently used shards."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

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

from mdstorm_backend.base import locks
from mdstorm_backend.cache import CacheOptions, shard_files
from mdstorm_backend.cache.directory import CacheDirectory, Record
from mdstorm_backend.cache.space import entries_of, reserve
from mdstorm_backend.errors import InvalidArgumentError, StorageError


def size_of(directory: Path) -> int:
    """Return the total size of all shards in a directory, including unfinished downloads."""
    found = [path for path in directory.rglob("*") if path.suffix in (".mds", ".part", ".zstd")]
    return sum(path.stat().st_size for path in found)


def test_least_recently_opened_shard_is_evicted_first(source: Path, local: Path) -> None:
    infos = make_shards(source, 3)
    files = cache(source, directory=local, limit=2000)
    files.open(infos[0])
    files.open(infos[1])
    for number, info in enumerate(infos[:2]):  # otherwise, the times may be equal
        os.utime(CacheDirectory(str(local)).record(info.raw_data.basename), (number, number))
    files.open(infos[0])
    files.open(infos[2])
    assert files_in(local) == [infos[n].raw_data.basename for n in (0, 2)]


@COMPRESSIONS
@pytest.mark.parametrize("keep_zip", [False, True])
def test_directory_never_exceeds_the_limit(
    compression: str | None, keep_zip: bool, source: Path, local: Path, storage: Storage
) -> None:
    infos = make_shards(source, 10, compression=compression)
    largest = 0

    def measured(source: str, target: str) -> None:
        nonlocal largest
        shards.no_fault(source, target)
        largest = max(largest, size_of(local))

    storage.faults += [measured] * 100
    files = cache(source, directory=local, limit=3500, keep_zip=keep_zip)
    for _ in range(2):
        assert [bytes(files.open(info)) for info in infos] == contents(infos)
        assert size_of(local) <= 3500
    assert 1000 < largest <= 3500


def test_files_that_the_cache_did_not_download_are_never_evicted(source: Path, local: Path) -> None:
    infos = make_shards(source, 6)
    make_shards(local, 1)
    (local / "notes.txt").write_text("mine")
    files = cache(source, directory=local, limit=1000)
    files.open(infos[1])
    path = local / infos[1].raw_data.basename
    path.unlink()
    path.write_bytes(contents(infos)[1])  # replaces the file that the cache downloaded
    for _ in range(2):
        assert [bytes(files.open(info)) for info in infos] == contents(infos)
    left = [infos[number].raw_data.basename for number in (0, 1, 5)]
    assert files_in(local) == ["notes.txt", *left]


@COMPRESSIONS
def test_shard_larger_than_the_limit_raises_error_naming_the_shard(
    compression: str | None, source: Path, local: Path
) -> None:
    (info,) = make_shards(source, 1, compression=compression)
    needed = 1000 + (info.zip_data.bytes if info.zip_data else 0)
    assert cache(source, directory=local, limit=needed).open(info)
    other, text = local.with_name("other"), f"{info.raw_data.basename}.* needs {needed} bytes.*cac"
    with pytest.raises(InvalidArgumentError, match=text):
        cache(source, directory=other, limit=needed - 1).open(info)
    # If the shards are known, the error is raised before any shard is opened.
    options = CacheOptions(directory=str(other), limit=needed - 1)
    with pytest.raises(InvalidArgumentError, match=text):
        shard_files(
            shards.remote(source), "f", options, shards=[*make_shards(source, 1, 500), info]
        )


def test_index_size_counts_towards_the_limit(source: Path, local: Path) -> None:
    infos = make_shards(source, 6)
    local.mkdir()
    (local / "index.json").write_bytes(bytes(500))
    files = cache(source, directory=local, limit=3400)
    for info in infos:
        files.open(info)
        assert size_of(local) <= 3400
    assert len(files_in(local)) == 3
    with pytest.raises(InvalidArgumentError, match="the index 500, and the limit is 1499"):
        cache(source, directory=local, limit=1499).open(infos[0])


def test_waiting_for_space_times_out(
    source: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = make_shards(source, 2)
    files = cache(source, directory=local, limit=1000)
    files.open(infos[0])
    clock = SimpleNamespace(sleep=lambda seconds: None, monotonic=count(step=1000).__next__)
    monkeypatch.setattr(locks, "time", clock)
    held = shards.locked(CacheDirectory(str(local)).record(infos[0].raw_data.basename))
    with held, pytest.raises(StorageError, match="limit of 1000 bytes, of which 0 are free"):
        files.open(infos[1])
    assert files.open(infos[1])


def test_space_reserved_by_a_killed_download_is_reclaimed(source: Path, local: Path) -> None:
    infos = make_shards(source, 2)
    files = cache(source, directory=local, limit=2000)
    files.open(infos[0])
    directory = CacheDirectory(str(local))
    with shards.locked(directory.record("killed.mds")) as lock:
        reserve(directory, lock, 1000, limit=2000, patience=0.0)
    files.open(infos[1])
    assert files_in(local) == [info.raw_data.basename for info in infos]


def test_cached_files_are_recounted_only_when_ledger_reaches_limit(
    source: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    infos = make_shards(source, 5)
    counts = []

    def counting(directory: CacheDirectory) -> Iterator[tuple[int, str, Record]]:
        counts.append(directory)
        return entries_of(directory)

    monkeypatch.setattr("mdstorm_backend.cache.space.entries_of", counting)
    for number, (limit, counted) in enumerate(
        # The cases: first use, enough space, too little space, a larger limit, no limit.
        [(2000, 1), (2000, 1), (2000, 2), (4000, 2), (None, 2)]
    ):
        cache(source, directory=local, limit=limit).open(infos[number])
        assert len(counts) == counted
    # The ledger includes the shard stored without a limit.
    cache(source, directory=local, limit=4000).open(infos[0])
    assert len(counts) == 3
    assert size_of(local) <= 4000


def test_ledger_counts_files_kept_from_an_earlier_download(source: Path, local: Path) -> None:
    ledger = Path(CacheDirectory(str(local)).ledger)
    for fingerprint, compression in ("first", "zstd"), ("second", "gz"):
        ledger.unlink(missing_ok=True)
        (info,) = make_shards(source, 1, compression=compression)
        options = {"fingerprint": fingerprint, "keep_zip": True, "limit": 9000}
        cache(source, directory=local, **options).open(info)
    sizes = [(local / name).stat().st_size for name in files_in(local)]
    assert len(sizes) == 3
    assert int(ledger.read_bytes().partition(b"\n")[0]) >= sum(sizes)


def test_eviction_from_cache_with_many_shards_frees_extra_space(
    source: Path, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdstorm_backend.cache.space.MANY_RECORDS", 5)
    infos = make_shards(source, 65, 1000)
    files = cache(source, directory=local, limit=64_000)
    for info in infos[:64]:
        files.open(info)
    assert size_of(local) == 64_000
    files.open(infos[64])
    assert size_of(local) == 62_000
