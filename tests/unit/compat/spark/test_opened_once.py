"""A converter opens its data once in a process, for all of its loaders."""

import gc
import os
import pickle
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.delta_tables import kill, two_versions
from tests.unit.compat.spark.converters import IN_ORDER, with_torch

from mdstorm._spark.converter_files import ReadFiles
from mdstorm._spark.model_inputs import ModelInputs
from mdstorm.errors import CorruptDatasetError, DatasetChangedError, DatasetNotFoundError
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import MDSWriter

ROWS = 8


def write_mds(path: Path, files: int = 4, *, added: int = 0, rows: int = 0) -> None:
    size_limit = 500 if rows > ROWS else 200  # the latter holds two rows
    with MDSWriter(out=str(path), columns={"id": "int64"}, size_limit=size_limit) as writer:
        for n in range(rows or 2 * files):
            writer.write({"id": n + added})


def write_parquet(path: Path, files: int = 4, *, added: int = 0, rows: int = 0) -> None:
    path.mkdir(parents=True)
    for number, part in enumerate(np.array_split(np.arange(rows or 2 * files) + added, files)):
        name, options = f"{number}.parquet", {"compression": "none", "use_dictionary": False}
        pq.write_table(pa.table({"id": part}), path / name, **options)


WRITE: dict[str, Callable[..., None]] = {"mds": write_mds, "parquet": write_parquet}
kinds = pytest.mark.parametrize("kind", WRITE)


def mds(folder: Path) -> Any:
    write_mds(folder / "mds")
    return str(folder / "mds")


def parquet(folder: Path) -> Any:
    write_parquet(folder / "parquet")
    return str(folder / "parquet")


def partitioned(folder: Path) -> Any:
    for day in (1, 2):
        write_parquet(folder / "days" / f"day={day}", 2, added=4 * day - 4)
    return str(folder / "days")


def one_partition(folder: Path) -> Any:
    """The directory that all files have in common is below the one that is named."""
    (folder / "days").mkdir()
    write_parquet(folder / "days" / "day=1")
    return str(folder / "days")


def in_memory(of: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def put(folder: Path) -> Any:
        url = f"memory://{folder}"
        fsspec.filesystem("memory").put(of(folder), url, recursive=True)
        return url

    return put


def constructed(of: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def construct(folder: Path) -> Any:
        made = make_spark_converter(of(folder))
        return SparkDatasetConverter(made.cache_dir_url, made.file_urls, len(made))

    return construct


#: What a converter is made over; each has the rows from 0 to 7, but for the table.
SOURCES: dict[str, Callable[[Path], Any]] = {
    "mds": mds,
    "index": lambda folder: f"{mds(folder)}/index.json",
    "some shards": lambda folder: make_spark_converter(mds(folder)).file_urls[1:3],
    "parquet": parquet,
    "partitioned": partitioned,
    "one partition": one_partition,
    "pattern": lambda folder: f"{parquet(folder)}/*.parquet",
    "files": lambda folder: make_spark_converter(parquet(folder)).file_urls[1:3],
    "table": lambda folder: str(two_versions(folder / "table")),
    "mds in memory": in_memory(mds),
    "parquet in memory": in_memory(partitioned),
    "constructed": constructed(mds),
    "constructed parquet": constructed(parquet),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "copies"))


def dataset_of(converter: SparkDatasetConverter, **arguments: Any) -> Any:
    """Return what a new loader reads."""
    return converter.make_torch_dataloader(**arguments).dataset._mdstorm.dataset  # type: ignore[attr-defined]


def ids(converter: SparkDatasetConverter) -> list[int]:
    return [n for batch in with_torch(converter, **IN_ORDER) for n in batch["id"]]


@pytest.mark.parametrize("name", SOURCES)
def test_loader_over_kept_dataset_equals_one_that_opens_it(name: str, tmp_path: Path) -> None:
    source = SOURCES[name](tmp_path)
    is_made = isinstance(source, SparkDatasetConverter)
    converter = source if is_made else make_spark_converter(source)
    other = pickle.loads(pickle.dumps(converter))  # noqa: S301
    kept, opened = dataset_of(converter), dataset_of(other)
    same = "url fingerprint former file_urls file_sizes schema shard_sizes root table_version"
    for attribute in same.split():
        assert getattr(kept, attribute) == getattr(opened, attribute), attribute
    assert kept.content_identity() == opened.content_identity()
    assert kept.schema.names == opened.schema.names
    assert ids(converter) == ids(converter) == ids(other)


def calls_of(function: Callable[[], Any]) -> Counter[str]:
    """Count the calls of Python functions."""
    called: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called[f"{frame.f_code.co_filename}:{frame.f_code.co_name}"] += 1

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return called


@kinds
@pytest.mark.parametrize("is_pickled", [False, True])
def test_next_loader_opens_nothing_whatever_the_number_of_files(
    tmp_path: Path, kind: str, *, is_pickled: bool
) -> None:
    called = []
    for files in (5, 50):
        WRITE[kind](tmp_path / f"{files}", files)
        converter = make_spark_converter(str(tmp_path / f"{files}"))
        if is_pickled:
            converter = pickle.loads(pickle.dumps(converter))  # noqa: S301
        for _ in range(2):
            assert len(ids(converter)) == 2 * files
        called.append(calls_of(lambda converter=converter: dataset_of(converter)))
    assert called[0] == called[1]


@kinds
@pytest.mark.parametrize("framework", ["data_loader_fn", "tensorflow"])
def test_other_loaders_open_nothing(tmp_path: Path, kind: str, framework: str) -> None:
    WRITE[kind](tmp_path / "data")
    converter = make_spark_converter(str(tmp_path / "data"))
    assert ids(converter) == list(range(ROWS))

    def read() -> None:
        if framework == "tensorflow":
            found = [n for b in converter.make_tf_dataset(3, **IN_ORDER) for n in b.id.numpy()]
        else:
            with converter.make_torch_dataloader(3, **IN_ORDER, data_loader_fn=rows) as found:
                pass
        assert found == list(range(ROWS))

    def rows(reader: Any, **_: Any) -> list[int]:
        return [int(n) for batch in reader for n in batch.id]

    opening = ("dataset.py:open_mds", "footers.py:read_footers")
    assert [name for name in calls_of(read) if name.endswith(opening)] == []


@kinds
def test_loader_with_other_files_or_options_opens_its_own(tmp_path: Path, kind: str) -> None:
    WRITE[kind](tmp_path / "data")
    options = {"auto_mkdir": False}
    converter = make_spark_converter(str(tmp_path / "data"), storage_options=options)
    assert ids(converter) == list(range(ROWS))
    options["auto_mkdir"] = True
    assert dataset_of(converter).location.storage_options == {"auto_mkdir": True}
    found = dataset_of(converter, storage_options={"auto_mkdir": False})
    assert found.location.storage_options == {"auto_mkdir": False}
    converter.file_urls = converter.file_urls[1:2]
    assert ids(converter) == [2, 3]
    converter.file_urls *= 2
    assert ids(converter) == [2, 3, 2, 3]


def overwrite(path: Path, new: Path) -> None:
    """Write the content of a file into another one."""
    path.write_bytes(new.read_bytes())
    later = path.stat().st_mtime_ns + 10**7
    os.utime(path, ns=(later, later))


def move(path: Path, new: Path) -> None:
    new.rename(path)


def remove(path: Path, _: Path) -> None:
    path.unlink()


def remove_all(path: Path, _: Path) -> None:
    shutil.rmtree(path.parent)


@kinds
@pytest.mark.parametrize(
    ("change", "rows", "error"),
    [
        (overwrite, ROWS, DatasetChangedError),
        (overwrite, 10 * ROWS, DatasetChangedError),
        (move, 10 * ROWS, (DatasetChangedError, CorruptDatasetError)),  # the index has its size
        (remove, ROWS, DatasetNotFoundError),
        (remove_all, ROWS, DatasetNotFoundError),
    ],
    ids=["same size", "larger", "replaced", "removed", "all removed"],
)
@pytest.mark.parametrize("is_read_before", [False, True])
def test_next_loader_over_changed_files_raises_error(
    tmp_path: Path, kind: str, change: Any, rows: int, error: Any, *, is_read_before: bool
) -> None:
    WRITE[kind](tmp_path / "data")
    WRITE[kind](tmp_path / "new", added=100, rows=rows)
    converter = make_spark_converter(str(tmp_path / "data"))
    if is_read_before:
        assert ids(converter) == list(range(ROWS))
    name = Path(converter.file_urls[1]).name
    change(tmp_path / "data" / name, tmp_path / "new" / name)
    with pytest.raises(error):
        ids(converter)


@kinds
def test_data_written_again_with_equal_bytes_are_read(tmp_path: Path, kind: str) -> None:
    WRITE[kind](tmp_path / "data")
    converter = make_spark_converter(str(tmp_path / "data"))
    shutil.rmtree(tmp_path / "data")
    WRITE[kind](tmp_path / "data")
    assert ids(converter) == list(range(ROWS))


@kinds
def test_damaged_file_that_was_restored_is_read_by_the_next_loader(
    tmp_path: Path, kind: str
) -> None:
    for name in ("data", "copy"):
        WRITE[kind](tmp_path / name)
    converter = make_spark_converter(str(tmp_path / "data"))
    file = tmp_path / "data" / Path(converter.file_urls[1]).name
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises((DatasetChangedError, CorruptDatasetError)):
        ids(converter)
    move(file, tmp_path / "copy" / file.name)
    assert ids(converter) == list(range(ROWS))


@kinds
def test_next_loader_over_data_changed_in_a_store_raises_error(tmp_path: Path, kind: str) -> None:
    converter = make_spark_converter(in_memory(mds if kind == "mds" else parquet)(tmp_path))
    assert ids(converter) == list(range(ROWS))
    WRITE[kind](tmp_path / "new", rows=10 * ROWS)
    for path in (tmp_path / "new").iterdir():
        url = f"{converter.file_urls[0].rpartition('/')[0]}/{path.name}"
        fsspec.filesystem("memory").pipe(url, path.read_bytes())
    with pytest.raises(DatasetChangedError, match="was changed after the converter was made"):
        ids(converter)


def open_files() -> list[str]:
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return [os.readlink(link) for link in links if os.path.lexists(link)]


def test_constructed_converter_reads_the_newest_version_of_a_table(tmp_path: Path) -> None:
    table = two_versions(tmp_path / "table")
    newest = SparkDatasetConverter(None, [str(table)], 3)
    assert ids(newest) == [1, 2, 4]
    made = make_spark_converter(str(table))
    kill(table, {"k%3Da/f.parquet": [0, 1, 3]})
    assert (ids(newest), ids(made)) == ([2, 4], [1, 2, 4])


@kinds
def test_files_are_closed_with_their_loader(tmp_path: Path, kind: str) -> None:
    WRITE[kind](tmp_path / "data")
    converter = make_spark_converter(str(tmp_path / "data"))
    for _ in range(2):
        assert ids(converter) == list(range(ROWS))
        gc.collect()
        assert [link for link in open_files() if link.startswith(str(tmp_path))] == []


@kinds
def test_forked_process_reads_with_the_kept_dataset(tmp_path: Path, kind: str) -> None:
    WRITE[kind](tmp_path / "data")
    converter = make_spark_converter(str(tmp_path / "data"))
    iterator = iter(converter.make_torch_dataloader(3, **IN_ORDER))
    next(iterator)
    context = get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=lambda: queue.put(ids(converter)))
    process.start()
    assert queue.get() == list(range(ROWS))
    process.join()
    assert [n for batch in iterator for n in batch["id"].tolist()] == list(range(3, ROWS))


def test_pickle_of_a_converter_contains_no_dataset(tmp_path: Path) -> None:
    write_mds(tmp_path / "data")
    converter = make_spark_converter(str(tmp_path / "data"))
    before = len(pickle.dumps(converter))
    ids(converter)
    _ = converter.dataset
    assert len(pickle.dumps(converter)) == before
    assert b"KeptDataset" not in pickle.dumps(converter)  # which earlier versions do not have
    loader = converter.make_torch_dataloader(num_epochs=1)
    assert len(pickle.dumps(loader)) < 10 * before


def test_loader_of_an_older_pickle_without_the_kept_dataset_is_read(tmp_path: Path) -> None:
    write_mds(tmp_path / "data")
    converter = make_spark_converter(str(tmp_path / "data"))
    files = converter._mdstorm_read(ModelInputs(), {})
    older = {name: value for name, value in vars(files).items() if name != "kept"}
    unpickled = object.__new__(ReadFiles)
    unpickled.__setstate__(older)
    assert unpickled == files
    assert len(unpickled.dataset()) == ROWS
