"""What happens to the files of an open dataset without changing their content raises no error."""

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import open_parquet
from tests.unit.mds_backend.cache.shards import remote

from mdstorm_backend import ExactOrder, MDSWriter, StreamingDataset, merge_index, open_dataset
from mdstorm_backend.cache import CacheOptions, download
from mdstorm_backend.maintenance.reindex import reindex

#: Rows of a shard: more than 64 KiB, so that shards are mapped.
ROWS = 200
SHARDS = 3


def rows_of(start: int, count: int = ROWS) -> Iterator[dict[str, Any]]:
    for number in range(start, start + count):
        yield {"n": number, "pad": np.full(64, number), "text": str(number).zfill(8)}


def write_mds(path: Path, *, day: int = 0, text: bool = True, **options: Any) -> None:
    columns = {"n": "int", "pad": "ndarray:int64:64", **({"text": "str"} if text else {})}
    out = str(path / f"day={day}")
    with MDSWriter(out=out, columns=columns, size_limit=115_000, **options) as writer:
        for row in rows_of(10_000 * day, ROWS * SHARDS):
            writer.write({name: row[name] for name in columns})
    merge_index(str(path))


def write_parquet(path: Path) -> None:
    path.mkdir()
    for number in range(SHARDS):
        rows = list(rows_of(number * ROWS))
        table = pa.table({"n": [row["n"] for row in rows], "text": [row["text"] for row in rows]})
        pq.write_table(table, path / f"{number}.parquet", row_group_size=ROWS // 4)


def cached(path: Path) -> Any:
    options = CacheOptions(directory=str(path.parent / "local"))
    return open_dataset(str(path), cache=options)


#: How a kind of dataset is written and opened.
KINDS: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any]]] = {
    "records": (lambda path: write_mds(path, text=False), lambda path: open_dataset(str(path))),
    "values": (write_mds, lambda path: open_dataset(str(path))),
    "zipped": (lambda path: write_mds(path, compression="zstd"), lambda p: open_dataset(str(p))),
    "cached": (write_mds, cached),
    "parquet": (write_parquet, lambda path: open_parquet(str(path))),
}


def files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()]


def change_owner(path: Path) -> None:
    for file in [path, *files(path)]:
        os.chown(file, os.getuid(), os.getgid())


def change_mode(path: Path) -> None:
    for file in files(path):
        file.chmod(0o440)


def link(path: Path) -> None:
    (path.parent / "links").mkdir(exist_ok=True)
    for file in files(path):
        with suppress(FileExistsError):
            os.link(file, path.parent / "links" / file.name)


def copy_with_links(path: Path) -> None:
    shutil.rmtree(path.parent / "backup", ignore_errors=True)
    shutil.copytree(path, path.parent / "backup", copy_function=os.link)


def set_attribute(path: Path) -> None:
    for file in files(path):
        with suppress(OSError, AttributeError):  # not on macOS, nor in each file system
            os.setxattr(file, "user.note", b"1")


def copy_up(path: Path) -> None:
    """Replace files by copies with the same times, as an overlay and a remount do."""
    for file in files(path):
        shutil.copy2(file, file.with_suffix(".copy"))
        os.replace(file.with_suffix(".copy"), file)


def touch_index(path: Path) -> None:
    if (path / "index.json").exists():
        (path / "index.json").touch()


def rebuild_index(path: Path) -> None:
    if (path / "index.json").exists():
        reindex(str(path), force=True)


def append(path: Path) -> None:
    """Write more files, and an index over all of them."""
    if not (path / "index.json").exists():
        pq.write_table(pa.table({"n": [1], "text": ["1"]}), path / "9.parquet")
        return
    write_mds(path, day=len(files(path)), text=b"text" in (path / "index.json").read_bytes())


def evict(path: Path) -> None:
    for folder in (path.parent / "local", path.parent / "cache"):
        for file in files(folder) if folder.exists() else ():
            if ".mdstorm" not in file.parts:
                file.unlink()


def read_all(path: Path) -> None:
    for file in files(path):
        file.read_bytes()


ACTS = [
    change_owner,
    change_mode,
    link,
    copy_with_links,
    set_attribute,
    copy_up,
    touch_index,
    rebuild_index,
    append,
    evict,
    read_all,
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    write, open_it = KINDS[request.param]
    write(tmp_path / "data")
    return open_it


@pytest.mark.matrix
@pytest.mark.parametrize("act", ACTS)
def test_harmless_act_on_files_raises_no_error(
    act: Callable[[Path], None], kind: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "data"
    dataset = kind(path)
    act(path)
    for _ in range(2):
        found: list[int] = []
        for batch in dataset.batches(ROWS // 2):
            found += batch["n"].tolist()
            assert dataset[len(found) - 1]["n"] == len(found) - 1
            if len(found) == ROWS:
                act(path)
                dataset.release()  # files are opened again
        assert found == [*range(ROWS * SHARDS)]


@pytest.mark.parametrize("precision", [10, 100, 10**3, 10**6, 10**9, 2 * 10**9])
def test_times_cut_to_a_precision_raise_no_error(
    precision: int, kind: Callable[[Path], Any], tmp_path: Path
) -> None:
    path, time = tmp_path / "data", 1_800_000_001_123_456_789
    for file in files(path):
        os.utime(file, ns=(time, time))
    dataset = kind(path)
    assert dataset[0]["n"] == 0
    for file in files(path):  # as mounts and archives do
        os.utime(file, ns=(time, time // precision * precision))
    assert [n for b in dataset.batches(ROWS) for n in b["n"].tolist()] == [*range(ROWS * SHARDS)]


def test_copy_that_replaces_the_source_during_a_download_raises_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mds(tmp_path / "data")
    dataset, downloading, acts = cached(tmp_path / "data"), download.download, iter([copy_up])

    def downloaded(*args: Any, **options: Any) -> Any:
        found = downloading(*args, **options)
        for act in acts:
            act(tmp_path / "data")
        return found

    monkeypatch.setattr(download, "download", downloaded)
    assert dataset.to_table(["n"])["n"].to_pylist() == [*range(ROWS * SHARDS)]


@pytest.mark.parametrize("act", [shutil.rmtree, lambda path: path.rename(path.parent / "moved")])
def test_open_files_that_are_removed_or_replaced_keep_their_rows(
    act: Callable[[Path], object], kind: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "data"
    dataset = kind(path)
    expected = [dataset[number]["n"] for number in range(ROWS * SHARDS)]
    act(path)
    KINDS["values"][0](path) if (tmp_path / "moved").exists() else None
    assert [dataset[number]["n"] for number in range(ROWS * SHARDS)] == expected


def test_pickle_on_another_host_reads_copy_with_other_times(
    kind: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "data"
    dataset = kind(path)
    assert dataset[0]["n"] == 0
    content = pickle.dumps(dataset)
    for file in files(path):
        os.utime(file, ns=(1, 1))
    again = pickle.loads(content)  # noqa: S301 - our own bytes
    assert [n for b in again.batches(50) for n in b["n"].tolist()] == [*range(ROWS * SHARDS)]


def count_rows(dataset: Any, found: Any) -> None:
    try:
        found.put(sum(len(batch["n"]) for batch in dataset.batches(50)))
    except Exception as error:
        found.put(type(error).__name__)


@pytest.mark.parametrize(
    ("method", "is_changed"),
    [("fork", True), ("spawn", False), pytest.param("spawn", True, marks=pytest.mark.long)],
)
def test_process_that_is_started_compares_with_its_parent(
    method: str, is_changed: bool, tmp_path: Path
) -> None:
    write_mds(tmp_path / "data")
    dataset = open_dataset(str(tmp_path / "data"))
    if is_changed:
        for file in files(tmp_path / "data"):
            os.utime(file, ns=(1, 1))
    context: Any = get_context(method)
    found = context.Queue()
    process = context.Process(target=count_rows, args=(dataset, found))
    process.start()
    assert found.get() == ("DatasetChangedError" if is_changed else ROWS * SHARDS)
    process.join()


def test_store_whose_index_is_written_again_raises_no_error(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_mds(path)
    dataset = open_dataset(remote(path).url)
    assert dataset[0]["n"] == 0
    rebuild_index(path)
    assert dataset.to_table(["n"])["n"].to_pylist() == [*range(ROWS * SHARDS)]


def test_mount_without_times_raises_no_error(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_mds(path)
    for file in files(path):
        os.utime(file, ns=(0, 0))
    dataset = open_dataset(str(path))
    copy_up(path)
    assert dataset.to_table(["n"])["n"].to_pylist() == [*range(ROWS * SHARDS)]


@pytest.mark.long  # imports PyTorch in another process
def test_torch_worker_that_is_spawned_reads_unchanged_files(tmp_path: Path) -> None:
    from torch.utils.data import DataLoader

    write_mds(tmp_path / "data")
    dataset: Any = StreamingDataset(local=str(tmp_path / "data"), order=ExactOrder())
    loader: Any = DataLoader(
        dataset, batch_size=50, num_workers=1, multiprocessing_context="spawn", collate_fn=list
    )
    change_owner(tmp_path / "data")
    found = sorted(row["n"] for batch in loader for row in batch)
    assert found == [*range(ROWS * SHARDS)]
