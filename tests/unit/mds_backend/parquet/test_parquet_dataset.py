"""The files found at URLs, their order, and their decoded values.

While a row group is open, each requested column is decoded once.
"""

import gc
import mmap
import pickle
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem
from tests.kit.parquet_files import open_parquet
from tests.unit.mds_backend.read.readers import exact, flat

from mdstorm import make_batch_reader
from mdstorm_backend.errors import (
    ArgumentTypeError,
    CorruptDatasetError,
    DatasetChangedError,
    DatasetNotFoundError,
    EncodingError,
    InvalidArgumentError,
    UnsupportedTableError,
)
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.parquet import (
    ParquetDataset,
    parquet_dataset,
    value_bounds,
)
from mdstorm_backend.parquet.stored_columns import StoredColumns


def write(path: Path, numbers: Any, **options: Any) -> str:
    """Write a file with one column."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), path, **options)
    return str(path)


def numbers(dataset: ParquetDataset) -> list[int]:
    return dataset.to_table()["n"].to_pylist()  # type: ignore[no-any-return]


def test_hidden_and_metadata_files_are_ignored(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [1])
    (tmp_path / ".x").mkdir()
    for name in ["_SUCCESS", "_metadata", ".a.parquet.crc", "a.crc", ".x/y"]:
        (tmp_path / name).write_bytes(b"no Parquet")
    assert numbers(open_parquet(str(tmp_path))) == [1]


def test_list_of_files_is_read_in_list_order_without_partition_columns(tmp_path: Path) -> None:
    first, second = write(tmp_path / "k=1/b.parquet", [1]), write(tmp_path / "k=2/a.parquet", [2])
    dataset = open_parquet([second, f"file://{first}"])
    assert numbers(dataset) == [2, 1]
    assert dataset.schema.names == ("n",)
    assert open_parquet([str(tmp_path)]).schema.names == ("k", "n")
    assert open_parquet(first).schema.names == ("n",)
    assert dataset.file_urls == [f"file://{second}", f"file://{first}"]
    assert [(group.path, group.ordinal, group.num_rows) for group in dataset.row_groups] == [
        ("k=2/a.parquet", 0, 1),
        ("k=1/b.parquet", 0, 1),
    ]


def test_files_with_only_the_root_in_common_are_read(tmp_path: Path) -> None:
    with TemporaryDirectory(dir="/var/tmp") as other:
        files = [write(tmp_path / "a.parquet", [1]), write(Path(other) / "b.parquet", [2])]
        dataset = open_parquet(files)
        assert numbers(pickle.loads(pickle.dumps(dataset))) == [1, 2]  # noqa: S301
        assert dataset.file_urls == [f"file://{file}" for file in files]
        assert value_bounds(dataset, ["n"]) == [{"n": (1, 1)}, {"n": (2, 2)}]
        with make_batch_reader(dataset.file_urls, num_epochs=1, workers_count=1) as reader:
            assert reader.dataset.files == files
            assert sorted(n for batch in reader for n in batch.n.tolist()) == [1, 2]


def test_pattern_that_begins_at_the_root_finds_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet", [1])

    def list_what_leads_to_the_file(self: Any, directory: str, **_: Any) -> Any:
        # All of the machine's files would take long, and some may disappear meanwhile.
        above = [one for one in (Path(path), *Path(path).parents) if one.parent == Path(directory)]
        return [self.info(str(one)) for one in above if one != Path(directory)]

    monkeypatch.setattr(LocalFileSystem, "ls", list_what_leads_to_the_file)
    assert numbers(open_parquet(f"/*{path[2:]}")) == [1]


def test_pattern_finds_files_and_directories(tmp_path: Path) -> None:
    write(tmp_path / "one/a.parquet", [1])
    write(tmp_path / "two/a.parquet", [2])
    write(tmp_path / "two/b.txt", [3])
    assert numbers(open_parquet(f"{tmp_path}/*/*.parquet")) == [1, 2]
    assert numbers(open_parquet(f"{tmp_path}/t*")) == [2, 3]
    with pytest.raises(DatasetNotFoundError, match="no Parquet files"):
        open_parquet(f"{tmp_path}/x*")


@pytest.mark.parametrize(
    ("partitions", "values", "type_"),
    [
        (["k=1", "k=02", "k=-3"], [-3, 2, 1], pa.int64()),
        (["k=1", "k=b"], ["1", "b"], pa.string()),
        (["k=1", "k=__HIVE_DEFAULT_PARTITION__"], [1, None], pa.int64()),
        (["k=__HIVE_DEFAULT_PARTITION__"], [None], pa.string()),
        ([f"k={2**63 - 1}", f"k={-(2**63)}"], [2**63 - 1, -(2**63)], pa.int64()),
        ([f"k={2**63}", "k=1"], [str(2**63), "1"], pa.string()),
        ([f"k={-(2**63) - 1}", "k=1"], [str(-(2**63) - 1), "1"], pa.string()),
        (["k=a%2Fb%20c", "k=__HIVE_DEFAULT_PARTITION__"], [None, "a/b c"], pa.string()),
    ],
)
def test_partitions_become_columns_before_the_file_columns(
    partitions: list[str], values: list[Any], type_: pa.DataType, tmp_path: Path
) -> None:
    for partition in partitions:
        write(tmp_path / partition / "a.parquet", [1, 2], row_group_size=1)
    dataset = open_parquet(str(tmp_path))
    assert dataset.partition_columns == ("k",)
    assert dataset.schema.names == ("k", "n")
    assert dataset.arrow_schema.field("k").type == type_
    found = dataset.to_table()["k"]
    assert found.type == type_
    assert sorted(found.to_pylist(), key=str) == sorted(values * 2, key=str)
    assert dataset.schema["k"].null_count == 2 * values.count(None)
    assert dataset[0]["k"] == dataset.row_groups[0].partition["k"]


def test_partition_that_is_not_utf8_raises_error(tmp_path: Path) -> None:
    write(tmp_path / "k=%E4" / "a.parquet", [1])
    with pytest.raises(EncodingError, match=r"k=%E4/a\.parquet .*not UTF-8.*Rename the directory"):
        open_parquet(str(tmp_path))


def test_text_of_more_than_two_gib_raises_error_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (1 << 31) + 10
    offsets = pa.py_buffer(np.array([0, size], np.int64))
    memory = pa.py_buffer(mmap.mmap(-1, size))  # which is not in use until it is read
    huge = pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, memory])
    pq.write_table(pa.table({"t": pa.array(["a"], pa.large_string())}), tmp_path / "a.parquet")
    monkeypatch.setattr(StoredColumns, "live_rows", lambda *_, **__: [(1, {"t": huge})])
    with pytest.raises(InvalidArgumentError, match=r"text of more than 2 GiB in one of \['t'\]"):
        open_parquet(str(tmp_path)).to_table()


def test_file_outside_the_partitions_raises_error(tmp_path: Path) -> None:
    write(tmp_path / "k=1/a.parquet", [1])
    write(tmp_path / "b.parquet", [1])
    with pytest.raises(UnsupportedTableError, match=r"k=1/a\.parquet.*partitioned by \['k'\]"):
        open_parquet(str(tmp_path))


def test_invalid_file_list_raises_error() -> None:
    with pytest.raises(InvalidArgumentError, match="dataset url list must be non-empty"):
        open_parquet([])
    with pytest.raises(ArgumentTypeError, match="expected a URL or a path, found <class 'int'>"):
        open_parquet([3])
    with pytest.raises(InvalidArgumentError, match="the same scheme and netloc"):
        open_parquet(["s3://one/a", "s3://two/a"])


def test_filesystem_argument_takes_precedence_over_the_scheme(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    path = write(tmp_path / "a.parquet", [1, 2])
    memory.pipe("/data/set/a.parquet", Path(path).read_bytes())
    try:
        for given in (memory, pa.fs.PyFileSystem(pa.fs.FSSpecHandler(memory))):
            dataset = open_parquet("/data/set", filesystem=given)
            assert dataset.url == "memory:///data/set"
            assert numbers(dataset) == [1, 2]
            copy = pickle.loads(pickle.dumps(dataset))  # noqa: S301 - our own bytes
            assert numbers(copy) == [1, 2]
        assert numbers(open_parquet("memory://data/set")) == [1, 2]
    finally:
        memory.rm("/data", recursive=True)
    for local in (LocalFileSystem(), pa.fs.LocalFileSystem()):
        assert numbers(open_parquet(path, filesystem=local)) == [1, 2]
    sub_tree = pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())
    assert numbers(open_parquet("/", filesystem=sub_tree)) == [1, 2]
    assert numbers(open_parquet(["a.parquet"], filesystem=sub_tree)) == [1, 2]
    with pytest.raises(ArgumentTypeError, match="not a file system"):
        open_parquet(path, filesystem="s3")


def test_with_shards_returns_a_dataset_with_the_selected_row_groups(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.parquet", range(10), row_group_size=2))
    dataset = open_parquet(str(tmp_path))
    some = dataset.with_shards([4, 1])
    assert numbers(some) == [8, 9, 2, 3]
    assert (some.shard_sizes, some[3]) == ((2, 2), {"n": 3})
    assert dataset.with_shards(np.arange(5)) is dataset
    assert open_parquet(str(tmp_path)).fingerprint == dataset.fingerprint != some.fingerprint
    write(path, range(1, 11), row_group_size=2)
    assert open_parquet(str(tmp_path)).fingerprint != dataset.fingerprint


def test_metadata_files_in_the_directory_are_read(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [1])
    assert open_parquet(str(tmp_path)).common_metadata == {}
    schema = pa.schema([("n", pa.int64())])
    pq.write_metadata(schema.with_metadata({"a": "1"}), tmp_path / "_metadata")
    assert open_parquet(str(tmp_path)).common_metadata[b"a"] == b"1"
    pq.write_metadata(schema.with_metadata({"a": "2"}), tmp_path / "_common_metadata")
    assert open_parquet(str(tmp_path)).common_metadata[b"a"] == b"2"
    assert open_parquet([f"{tmp_path}/a.parquet"]).common_metadata[b"a"] == b"2"


@pytest.mark.long
def test_impossible_counts_in_a_footer_raise_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, [1, None, 3], compression="none")
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    found = set()
    for place in range(start, len(data) - 8):
        for bit in (1, 64):  # bits for the sign and the magnitude of a number
            damaged = bytearray(data)
            damaged[place] ^= bit
            path.write_bytes(damaged)
            try:
                value_bounds(open_parquet(str(path)), ["n"])
            except UnsupportedTableError:
                continue  # a damaged type looks like a newer one
            except CorruptDatasetError as error:
                found.add(str(error).partition("footer: ")[2][:22])
    assert "row group 0 declares a" in found
    assert "row group 0 declares 3" in found


ROWS, PER_GROUP = 100, 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = pa.table({"n": range(ROWS), "s": [str(n) for n in range(ROWS)], "x": [0.5] * ROWS})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=PER_GROUP)
    return tmp_path / "a.parquet"


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...]]]:
    """A list of decoded row groups and their columns, filled during the test."""
    calls = []
    real = pq.ParquetFile.read_row_groups

    def read(self: pq.ParquetFile, groups: Any, columns: Any = None, **options: Any) -> pa.Table:
        calls.extend((number, tuple(columns)) for number in groups)
        return real(self, groups, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", read)
    return calls


def test_each_column_in_a_row_group_is_decoded_once(path: Path, decoded: list[Any]) -> None:
    shard = open_parquet(str(path)).shard(3)
    shard.will_need()
    assert decoded == []
    for rows in (np.array([1, 5]), np.arange(4), np.arange(10)):
        assert shard.read(rows, ["n"])["n"].tolist() == (rows + 30).tolist()  # type: ignore[union-attr]
    shard.read(np.arange(2), ["n", "s"], exact_nulls=True)
    assert shard.sample(4) == {"n": 34, "s": "34", "x": 0.5}
    assert decoded == [(3, ("n",)), (3, ("s",)), (3, ("x",))]


def test_shuffled_window_decodes_each_row_group_once(
    path: Path, decoded: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_dataset, "KEPT_BYTES", 1)
    dataset = open_parquet(str(path))
    order = ExactOrder(seed=1, shuffle_rows=True, window=ROWS)
    found = flat(exact(dataset, order, 3, columns=["n"], block_rows=6), "n")
    assert sorted(found) == list(range(ROWS))
    assert found != sorted(found)
    assert sorted(decoded) == [(group, ("n",)) for group in range(ROWS // PER_GROUP)]


def test_unused_row_groups_are_closed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_dataset, "KEPT_BYTES", 1)
    dataset = open_parquet(str(path))
    held = dataset.shard(0)
    for number in range(ROWS // PER_GROUP):
        dataset.shard(number).make_ready(["n"])
    gc.collect()
    opened = [n for n in range(ROWS // PER_GROUP) if dataset.find_open(n) is not None]
    assert opened == [0, ROWS // PER_GROUP - 1]
    assert dataset.shard(0) is held


def test_sample_out_of_range_raises_index_error(path: Path) -> None:
    dataset = open_parquet(str(path))
    assert dataset[-1]["n"] == ROWS - 1
    with pytest.raises(IndexError, match="sample 100 of 100"):
        dataset[ROWS]
    with pytest.raises(IndexError, match="sample 10 of 10"):
        dataset.shard(0).sample(10)
    for read in (lambda: dataset.sample(0, ["y"]), lambda: dataset.select(["y"])):
        with pytest.raises(ArgumentTypeError, match=r"no columns \['y'\]"):
            read()


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"no Parquet at all", b"PAR1\xff\xff\xff\xffPAR1"]
)
def test_files_that_are_not_parquet_raise_error(content: bytes, path: Path) -> None:
    (path.parent / "b.parquet").write_bytes(content)
    message = r"b\.parquet is (not a Parquet file|empty)"
    with pytest.raises(CorruptDatasetError, match=message) as found:
        open_parquet(str(path.parent))
    assert found.value.url == f"file://{path.parent}/b.parquet"


@pytest.mark.parametrize("damage", [lambda d: d[:-5], lambda d: d.replace(b"\x01s", b"\x01\xff")])
def test_damaged_footer_raises_error(damage: Callable[[bytes], bytes], path: Path) -> None:
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CorruptDatasetError, match="was truncated"):
        open_parquet(str(path))


def test_damaged_page_raises_error(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    dataset = open_parquet(str(path))
    with pytest.raises(CorruptDatasetError, match=r"a\.parquet holds a row group that cannot be"):
        list(dataset.batches(10))


@pytest.mark.long
@pytest.mark.parametrize("is_nested", [False, True])
def test_row_group_with_more_than_2_gib_of_text_is_read(is_nested: bool, tmp_path: Path) -> None:
    # Dictionaries keep the file small; it is read as plain strings.
    rows, text = 300, "x" * (8 << 20)
    indices = pa.array(np.arange(rows, dtype=np.int32) % 2)
    texts = pa.DictionaryArray.from_arrays(indices, pa.array([text, f"y{text}"]))
    values = pa.StructArray.from_arrays([texts], ["t"]) if is_nested else texts
    options = {"row_group_size": rows, "store_schema": False, "write_statistics": False}
    pq.write_table(pa.table({"n": range(rows), "c": values}), tmp_path / "a.parquet", **options)
    seen: list[int] = []
    for batch in open_parquet(str(tmp_path)).batches(32):
        cells: Any = batch["c"]
        sizes = [len(cell["t"]) if is_nested else len(cell) for cell in cells.tolist()]
        assert sizes == [len(text) + n % 2 for n in batch["n"].tolist()]
        seen += batch["n"].tolist()
    assert seen == list(range(rows))


def test_file_that_changes_or_disappears_during_reading_raises_error(path: Path) -> None:
    dataset: ParquetDataset = open_parquet(str(path))
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(DatasetChangedError, match=r"a\.parquet was changed .*it had [\d,]+ bytes"):
        dataset[0]
    path.unlink()
    with pytest.raises(DatasetNotFoundError, match=r"a\.parquet is gone"):
        dataset[0]
