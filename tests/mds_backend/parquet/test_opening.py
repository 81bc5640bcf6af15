"""Which files are found behind URLs, and in which order they are read."""

import pickle
import traceback
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

from mdstorm_backend.errors import (
    ArgumentTypeError,
    CorruptDatasetError,
    DatasetNotFoundError,
    InvalidArgumentError,
)
from mdstorm_backend.parquet import ParquetDataset, footers, open_parquet, value_bounds


def write(path: Path, numbers: Any, **options: Any) -> str:
    """Write a file with one column."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), path, **options)
    return str(path)


def copy_of(dataset: ParquetDataset) -> ParquetDataset:
    return pickle.loads(pickle.dumps(dataset))  # type: ignore[no-any-return] # noqa: S301 - our own


def numbers(dataset: ParquetDataset) -> list[int]:
    return dataset.to_table()["n"].to_pylist()  # type: ignore[no-any-return]


def test_what_lies_beside_the_data_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [1])
    for name in ["_SUCCESS", "_metadata", ".a.parquet.crc", "a.crc", ".x/y"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no Parquet")
    assert numbers(open_parquet(str(tmp_path))) == [1]


def test_a_list_is_read_in_its_order_and_without_partitions(tmp_path: Path) -> None:
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


def test_a_pattern_finds_files_and_directories(tmp_path: Path) -> None:
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
        (["k=a%2Fb%20c", "k=__HIVE_DEFAULT_PARTITION__"], [None, "a/b c"], pa.string()),
    ],
)
def test_partitions_are_columns_before_the_others(
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


def test_a_file_outside_of_the_partitions_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "k=1/a.parquet", [1])
    write(tmp_path / "b.parquet", [1])
    with pytest.raises(CorruptDatasetError, match=r"k=1/a\.parquet.*partitioned by \['k'\]"):
        open_parquet(str(tmp_path))


def test_arguments_that_name_no_files() -> None:
    with pytest.raises(InvalidArgumentError, match=r"dataset url list must be non-empty\."):
        open_parquet([])
    with pytest.raises(ArgumentTypeError, match="strings"):
        open_parquet([3])  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError, match="the same scheme and netloc"):
        open_parquet(["s3://one/a", "s3://two/a"])


def test_file_systems_go_before_urls(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    path = write(tmp_path / "a.parquet", [1, 2])
    memory.pipe("/data/set/a.parquet", Path(path).read_bytes())
    try:
        for given in (memory, pa.fs.PyFileSystem(pa.fs.FSSpecHandler(memory))):
            dataset = open_parquet("/data/set", filesystem=given)
            assert dataset.url == "memory:///data/set"
            assert numbers(dataset) == [1, 2]
            assert numbers(copy_of(dataset)) == [1, 2]
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


def test_the_fingerprint_tells_contents_apart(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "a.parquet", [1, 2]))
    first = open_parquet(str(tmp_path))
    assert open_parquet(str(tmp_path)).fingerprint == first.fingerprint
    assert open_parquet(str(tmp_path)).with_row_groups([]).fingerprint != first.fingerprint
    write(path, [3, 4])
    assert open_parquet(str(tmp_path)).fingerprint != first.fingerprint


def test_some_row_groups_are_a_dataset_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", range(10), row_group_size=2)
    dataset = open_parquet(str(tmp_path))
    some = dataset.with_row_groups([4, 1])
    assert numbers(some) == [8, 9, 2, 3]
    assert some.shard_sizes == (2, 2)
    assert some[3] == {"n": 3}
    assert dataset.with_row_groups(np.arange(5)) is dataset


def test_metadata_of_the_whole_directory(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [1])
    assert open_parquet(str(tmp_path)).common_metadata == {}
    schema = pa.schema([("n", pa.int64())])
    pq.write_metadata(schema.with_metadata({"a": "1"}), tmp_path / "_metadata")
    assert open_parquet(str(tmp_path)).common_metadata[b"a"] == b"1"
    pq.write_metadata(schema.with_metadata({"a": "2"}), tmp_path / "_common_metadata")
    assert open_parquet(str(tmp_path)).common_metadata[b"a"] == b"2"
    assert open_parquet([f"{tmp_path}/a.parquet"]).common_metadata[b"a"] == b"2"


def test_counts_in_a_footer_that_cannot_be_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, [1, None, 3], compression="none")
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    found = set()
    for place in range(start, len(data) - 8):
        for bit in (1, 64):  # the sign, the length of the number
            damaged = bytearray(data)
            damaged[place] ^= bit
            path.write_bytes(damaged)
            try:
                value_bounds(open_parquet(str(path)), ["n"])
            except CorruptDatasetError as error:
                found.add(str(error).partition("footer: ")[2][:20])
    assert "row group 0 states a" in found
    assert "row group 0 states 3" in found


def test_tensorflow_does_not_rewrite_what_is_called_in_its_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf = pytest.importorskip("tensorflow")
    url, called = write(tmp_path / "a.parquet", [1, 2]), []
    read = footers.read_struct

    def noted(*arguments: Any) -> Any:
        called.append({frame.name for frame in traceback.extract_stack()})
        return read(*arguments)

    monkeypatch.setattr(footers, "read_struct", noted)

    @tf.function  # type: ignore[untyped-decorator]
    def opened() -> Any:
        value_bounds(open_parquet(url), ["n"])
        return tf.constant(0)

    opened()
    assert len(called) == 2
    rewritten = {name for names in called for name in names if name.startswith("tf__")}
    assert rewritten <= {"tf__opened"}
