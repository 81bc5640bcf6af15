"""Datasets on mounted remote storage, with the limitations listed in `tests.kit.servers.volume`."""

import mmap
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet
from tests.kit.small_datasets import write_ints

from mdstorm_backend import StreamingDataset, open_dataset
from mdstorm_backend.convert import convert_parquet
from mdstorm_backend.errors import DatasetExistsError, StorageError
from mdstorm_backend.maintenance import verify
from mdstorm_backend.storage import Location
from mdstorm_backend.write.job_files import remove_dataset

TABLE = pa.table({"n": range(100), "text": [str(i) for i in range(100)]})


def test_simulated_mount_rejects_appends_and_memory_maps(volume: Path) -> None:
    file = volume / "file"
    file.write_bytes(b"abc")
    with pytest.raises(OSError, match="not supported"):
        file.open("ab")
    with file.open("r+b", buffering=0) as opened, pytest.raises(OSError, match="not supported"):
        opened.write(b"x")
    with file.open("rb") as opened, pytest.raises(OSError, match="No such device"):
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    with pytest.raises(OSError, match="not permitted"):
        os.link(file, volume / "link")
    assert os.listdir(volume) == ["file"]
    (volume / "later").touch()
    file.unlink()
    assert os.listdir(volume) == ["file"]  # the mount caches the listing for a second
    assert (file.exists(), (volume / "later").exists()) == (False, True)


@pytest.mark.long
def test_shards_are_written_and_read(volume: Path) -> None:
    write_ints(volume / "mds", range(100), size_limit=200)
    for source in ({"local": str(volume / "mds")}, {"remote": str(volume / "mds")}):
        assert [sample["n"] for sample in StreamingDataset(batch_size=10, **source)] == [
            *range(100)
        ]
    assert verify(str(volume / "mds")).is_good


def test_parquet_is_read_and_converted_in_place(volume: Path) -> None:
    pq.write_table(TABLE, volume / "part.parquet", row_group_size=10)
    source = open_parquet(str(volume))
    assert len(source) == 100
    target = Location.of(str(volume / "mds"))
    os.mkdir(volume / "mds")
    os.listdir(volume / "mds")  # the mount caches this empty listing
    dataset = convert_parquet(source, target, shard_size=1000)
    assert len(dataset.file_urls) > 2
    assert open_dataset(str(volume / "mds")).to_table().equals(TABLE)


def test_dataset_on_mount_with_stale_listings_can_be_removed_and_rewritten(
    volume: Path,
) -> None:
    pq.write_table(TABLE, volume / "part.parquet")
    source, target = open_parquet(str(volume)), Location.of(str(volume / "mds"))
    for _ in range(2):
        convert_parquet(source, target, shard_size=1000)
        with pytest.raises(DatasetExistsError):
            convert_parquet(source, target)
        os.listdir(volume / "mds")
        assert remove_dataset(target) == []
        assert not (volume / "mds").exists()


def test_files_missing_from_a_stale_listing_are_read(volume: Path) -> None:
    assert os.listdir(volume) == []
    for name in ("part-0.parquet", "part-1.parquet"):
        pq.write_table(TABLE, volume / name)
    (volume / "_SUCCESS").touch()
    assert os.listdir(volume) == []
    assert len(open_parquet(str(volume))) == 200


def test_cache_on_file_system_without_locks_raises_error(volume: Path, tmp_path: Path) -> None:
    write_ints(volume / "mds", range(100), size_limit=200)
    options: dict[str, Any] = {"remote": str(volume / "mds"), "batch_size": 10}
    with pytest.raises(StorageError, match="on a file system without locks, such as a mount of"):
        list(StreamingDataset(local=str(volume / "cache"), **options))
    assert len(list(StreamingDataset(local=str(tmp_path / "cache"), **options))) == 100
