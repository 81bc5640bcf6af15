"""The content identity changes when files are written again; the fingerprint does not."""

import copy
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from tests.kit.delta_tables import OLD_PROTOCOL, add, commit, field, metadata
from tests.kit.iceberg_tables import catalog, newest_metadata
from tests.kit.parquet_files import open_parquet
from tests.unit.mds_backend.cache.shards import remote

from mdstorm_backend import (
    ExactOrder,
    MDSWriter,
    StreamingDataLoader,
    StreamingDataset,
    open_dataset,
)
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.datasets import SampleDataset, choose_rows
from mdstorm_backend.datasets.open_streams import JoinedDataset
from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.storage import Location

TABLE = pa.table({"n": pa.array(range(9), pa.int64())})


def write(path: str, flip: int = 0, **options: Any) -> None:
    given: Any = {"columns": {"n": "int64"}, "exist_ok": True, "size_limit": 300, **options}
    with MDSWriter(out=path, **given) as writer:
        for number in range(60):
            writer.write({"n": number ^ flip})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))


def in_a_store(path: Path) -> SampleDataset:
    return open_dataset(remote(path).url)


def in_memory(path: Path) -> SampleDataset:
    url, stored = f"memory://{path}", (path / "index.json").stat().st_mtime_ns
    if _uploaded.get(url) != stored:
        for file in path.iterdir():
            Location.of(url).write(file.name, [file.read_bytes()])
        _uploaded[url] = stored
    return open_dataset(url)


#: The time of the index that is in memory, by URL.
_uploaded: dict[str, int] = {}


def cached(path: Path) -> SampleDataset:
    options = CacheOptions(directory=str(path.parent / "local"))
    return open_dataset(str(path), cache=options)


def joined(path: Path) -> SampleDataset:
    other = path.parent / "other"
    if not other.exists():
        write(str(other))
    return JoinedDataset([open_dataset(str(other)), open_dataset(str(path))])


def chosen(path: Path) -> Any:
    return choose_rows(open_dataset(str(path)), slice(3, 9), None, is_shuffled=False)


OPENED: dict[str, Callable[[Path], Any]] = {
    "disk": lambda path: open_dataset(str(path)),
    "store": in_a_store,
    "memory": in_memory,
    "disk, cached elsewhere": cached,
    "streams": joined,
    "rows": chosen,
    "one shard": lambda path: open_dataset(str(path)).with_shards([1]),
    "copied": lambda path: copy.deepcopy(open_dataset(str(path))),
}


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
def test_writing_the_same_rows_again_changes_only_the_content_identity(
    opened: Callable[[Path], Any], compression: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "data"
    write(str(path), compression=compression)
    first, again = opened(path), opened(path)
    identities = {first.content_identity(), again.content_identity()}
    assert len(identities) == 1
    assert first.fingerprint not in identities
    before = first.fingerprint
    write(str(path), compression=compression)
    assert opened(path).fingerprint == before
    assert opened(path).content_identity() not in identities


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_shard_replaced_without_its_index_changes_the_content_identity_on_a_disk(
    compression: str | None, tmp_path: Path
) -> None:
    write(str(tmp_path), compression=compression)
    before = open_dataset(str(tmp_path)).content_identity()
    shard = sorted(tmp_path.glob("shard.*"))[-1]
    os.utime(shard, ns=(1, 1))
    assert open_dataset(str(tmp_path)).content_identity() != before


def test_shards_that_were_decompressed_have_times(tmp_path: Path) -> None:
    write(str(tmp_path / "zipped"), compression="zstd")
    write(str(tmp_path / "raw"))
    for shard in (tmp_path / "raw").glob("shard.*"):
        shutil.move(shard, tmp_path / "zipped")
    for shard in (tmp_path / "zipped").glob("*.zstd"):
        shard.unlink()
    before = open_dataset(str(tmp_path / "zipped")).content_identity()
    os.utime(shard.with_suffix(""), ns=(1, 1))
    assert open_dataset(str(tmp_path / "zipped")).content_identity() != before


def test_shards_that_a_stream_downloads_itself_have_times(tmp_path: Path) -> None:
    class Copied(Stream):
        def get_shards(self, world: Any, allow_unsafe_types: bool) -> Any:
            return list(open_dataset(str(tmp_path / "data")).index.shards)

        def _download_file(self, from_basename: str, to_basename: str | None = None) -> str:
            target = tmp_path / "local" / from_basename
            shutil.copy2(tmp_path / "data" / from_basename, target)
            return str(target)

    for flip in (0, 1):
        shutil.rmtree(tmp_path / "local", ignore_errors=True)
        (tmp_path / "local").mkdir()
        write(str(tmp_path / "data"), flip)
        # The first shard is downloaded for its schema, before the others.
        os.utime(tmp_path / "data" / "shard.00000.mds", ns=(1, 1))
        stream = Copied(remote=str(tmp_path / "data"), local=str(tmp_path / "local"))
        options: Any = {"where": [("n", "in", [0, 2, 4])]}
        dataset = StreamingDataset(streams=[stream], order=ExactOrder(), **options)
        assert [sample["n"] for sample in dataset] == [0, 2, 4]


def test_requests_for_the_content_identity_do_not_depend_on_the_number_of_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(str(tmp_path / "data"))
    dataset = in_a_store(tmp_path / "data")
    assert len(dataset.shard_sizes) > 3
    stats: list[str] = []
    stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **o: (stats.append(str(path)), stat(path, **o))[1])
    dataset.content_identity()
    assert [path for path in stats if "/data" in path] == []


def test_states_load_into_copies_with_other_times(tmp_path: Path) -> None:
    write(str(tmp_path / "data"))
    shutil.copytree(tmp_path / "data", tmp_path / "copy", copy_function=shutil.copyfile)
    paths = [str(tmp_path / name) for name in ("data", "copy")]
    assert len({open_dataset(path).content_identity() for path in paths}) == 2
    loader, other = (
        StreamingDataLoader(StreamingDataset(local=path, order=ExactOrder()), 4) for path in paths
    )
    batches = iter(loader)
    next(batches)
    other.load_state_dict(loader.state_dict() or {})
    assert [batch["n"].tolist() for batch in other] == [batch["n"].tolist() for batch in batches]


def test_parquet_copy_with_other_times_has_same_fingerprint_only(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    opened = open_parquet(str(tmp_path))
    os.utime(tmp_path / "a.parquet", ns=(1, 1))
    copied = open_parquet(str(tmp_path))
    assert opened.fingerprint == copied.fingerprint
    assert opened.with_shards([]).fingerprint == copied.with_shards([]).fingerprint
    assert opened.content_identity() != copied.content_identity()
    other = pa.table({"n": pa.array(range(1, 10), pa.int64())})
    pq.write_table(other, tmp_path / "a.parquet")
    assert open_parquet(str(tmp_path)).fingerprint != opened.fingerprint


def parquet(folder: Path) -> Iterator[str]:
    for _ in range(2):
        pq.write_table(TABLE, folder / "a.parquet")
        yield str(folder)


def delta(folder: Path) -> Iterator[str]:
    for _ in range(2):
        write_deltalake(str(folder), TABLE, mode="overwrite")
        yield str(folder)


def iceberg(folder: Path) -> Iterator[str]:
    table = catalog(folder).create_table("n.t", TABLE.schema)
    for _ in range(2):
        table.append(TABLE)
        yield str(newest_metadata(table))


def delta_with_equal_names(folder: Path) -> Iterator[str]:
    for first in range(2):
        rows = pa.table({"n": pa.array(9 * [first], pa.int64())})
        action = add(folder, "a.parquet", rows)
        commit(folder, *([] if first else [OLD_PROTOCOL, metadata([field("n", "long")])]), action)
        yield str(folder)


def test_tables_with_equal_names_of_files_have_equal_fingerprints_only(tmp_path: Path) -> None:
    opened = [open_parquet(url) for url in delta_with_equal_names(tmp_path)]
    assert len({dataset.fingerprint for dataset in opened}) == 1
    assert len({dataset.content_identity() for dataset in opened}) == 2


@pytest.mark.parametrize("versions", [parquet, delta, iceberg])
def test_each_version_of_files_and_tables_has_its_content_identity(
    versions: Callable[[Path], Iterator[str]], tmp_path: Path
) -> None:
    found = []
    for url in versions(tmp_path):
        found.append(open_parquet(url).content_identity())
        assert open_parquet(url).content_identity() == found[-1]
    assert found[0] != found[1]
