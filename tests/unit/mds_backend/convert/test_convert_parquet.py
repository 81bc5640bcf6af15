"""Converting Parquet preserves values, types and order, using bounded memory."""

import threading
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.parquet_files import every_type, numbers, open_parquet, write
from tests.kit.small_datasets import same_values

from mdstorm_backend import errors, open_dataset
from mdstorm_backend.convert import compare, convert_parquet, parquet_to_mds, plan_parquet
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.values.arrow_types import plain_type
from mdstorm_backend.parquet import ParquetDataset


def files(directory: Path) -> dict[str, bytes]:
    """The files in a dataset, except the marker, whose content differs between directories."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix}


def test_every_type_reads_back_unchanged(tmp_path: Path) -> None:
    table = every_type()
    source = write(tmp_path / "source", table.slice(0, 2), table.slice(2), row_group_size=1)
    dataset = convert_parquet(source, str(tmp_path / "mds"))
    found = dataset.to_table()
    assert [field.type for field in found.schema] == [plain_type(f.type) for f in table.schema]
    assert same_values(found, table.cast(found.schema))
    assert compare(source, dataset).is_same


def test_files_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    source = write(tmp_path / "source", *[numbers(40, 40 * i) for i in range(4)], row_group_size=9)
    for workers in (1, 5):
        convert_parquet(source, str(tmp_path / str(workers)), shard_size=2500, workers=workers)
    assert files(tmp_path / "1") == files(tmp_path / "5")


def test_row_groups_become_shards_on_request(tmp_path: Path) -> None:
    source = write(tmp_path / "source", numbers(10), numbers(3, 10), row_group_size=4)
    dataset = convert_parquet(source, str(tmp_path / "mds"), cut_at="row_groups")
    assert dataset.shard_sizes == source.shard_sizes == (4, 4, 2, 3)
    assert dataset.to_table().equals(numbers(13))
    small = convert_parquet(source, str(tmp_path / "cut"), cut_at="row_groups", shard_size=60)
    assert len(small.shard_sizes) > 4
    ends = np.cumsum(small.shard_sizes)
    assert {4, 8, 10, 13} <= set(ends.tolist())


def test_hive_partitions_become_columns(tmp_path: Path) -> None:
    for year, word in [(2023, "a"), (2024, "b%2F"), (2024, "__HIVE_DEFAULT_PARTITION__")]:
        write(tmp_path / "source" / f"year={year}" / f"word={word}", numbers(2))
    source = open_parquet(str(tmp_path / "source"))
    dataset = convert_parquet(source, str(tmp_path / "mds"))
    found = dataset.to_table().to_pydict()
    assert list(found) == ["year", "word", "id", "half", "text"]
    pairs = [(2023, "a"), (2024, "None"), (2024, "b/")]
    assert sorted(zip(found["year"], map(str, found["word"]), strict=True))[::2] == pairs
    only = convert_parquet(source, str(tmp_path / "only"), columns=["year"])
    assert sorted(only.to_table().column("year").to_pylist()) == [2023] * 2 + [2024] * 4


def test_columns_argument_selects_and_orders_columns(tmp_path: Path) -> None:
    source = write(tmp_path / "source", numbers(3))
    dataset = convert_parquet(source, str(tmp_path / "mds"), columns=["text", "id"])
    assert dataset.to_table().equals(numbers(3).select(["text", "id"]))
    with pytest.raises(errors.MissingColumnError, match="no column 'nothing'"):
        convert_parquet(source, str(tmp_path / "other"), columns=["nothing"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_are_cast_on_request(tmp_path: Path, dtype: str) -> None:
    singles, structs = pa.array([0.1, None], pa.float32()), [{"d": 0.1}, {"d": 0.2}]
    columns = [singles, [1e300, 0.1], [[0.1], [1e300]], structs]
    table = pa.table(columns, ["single", "double", "list", "struct"])
    source = write(tmp_path / "source", table)
    plan = plan_parquet(source.arrow_schema, dtype)
    dataset = convert_parquet(source, str(tmp_path / "mds"), plan=plan)
    wanted: Any = pa.float32() if dtype == "float32" else pa.float64()
    for name in ("single", "double"):
        found = dataset.to_table().column(name)
        assert found.to_pylist() == table.column(name).cast(wanted).to_pylist()
        assert found.type == wanted
    assert dataset.schema["list"].arrow_type == pa.list_(wanted)
    assert dataset.to_table().column("struct").equals(table.column("struct"))
    assert not compare(source, dataset).is_same
    assert compare(source, dataset, dtype=dtype).is_same


def test_shards_are_compressed_and_hashed(tmp_path: Path) -> None:
    source = write(tmp_path / "source", numbers(100))
    options: dict[str, Any] = {"compression": "gz", "hashes": ["sha1"], "shard_size": 3000}
    dataset = convert_parquet(source, str(tmp_path / "mds"), **options)
    assert {shard.compression for shard in dataset.index.shards} == {"gz"}
    assert all(shard.zip_data and shard.zip_data.hashes for shard in dataset.index.shards)
    assert dataset.to_table().equals(numbers(100))


def test_columns_are_converted_according_to_plan_and_recode_function(tmp_path: Path) -> None:
    source = write(tmp_path / "source", numbers(4))

    def recode(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch.column("text").cast(pa.binary()), batch.column("id")]
        return pa.RecordBatch.from_arrays(columns, names=["raw", "number"])

    dataset = convert_parquet(
        source,
        str(tmp_path / "mds"),
        plan=Schema((Column("raw", "png"), Column("number", "int16"))),
        recode=recode,
        extra={"note": [1], "columns": "not these"},
    )
    assert [(c.name, c.encoding) for c in dataset.schema] == [("raw", "png"), ("number", "int16")]
    expected = {"raw": [b"0", b"1", b"2", b"3"], "number": [0, 1, 2, 3]}
    assert dataset.to_table().to_pydict() == expected
    assert open_dataset(str(tmp_path / "mds")).index.extra["note"] == [1]


def test_unsupported_types_raise_error_before_writing(tmp_path: Path) -> None:
    table = pa.table({"time": pa.array([1], pa.time64("us")), "id": [1], "nothing": pa.nulls(1)})
    source = write(tmp_path / "source", table)
    with pytest.raises(errors.UnsupportedTypeError, match=r"'time'.*'nothing'") as caught:
        convert_parquet(source, str(tmp_path / "mds"))
    assert sorted(caught.value.columns) == ["nothing", "time"]
    assert not (tmp_path / "mds").exists()


def test_existing_dataset_is_not_replaced_and_other_files_are_kept(tmp_path: Path) -> None:
    source = write(tmp_path / "source", numbers(3))
    dataset = convert_parquet(source, str(tmp_path / "source"))
    assert (tmp_path / "source" / "0.parquet").exists()
    before = files(tmp_path / "source")
    with pytest.raises(errors.DatasetExistsError, match="already holds a dataset"):
        convert_parquet(source, dataset.url)
    assert files(tmp_path / "source") == before


def test_column_with_different_types_in_two_files_gets_the_wider_type(tmp_path: Path) -> None:
    small = numbers(3).set_column(0, "id", pa.array([0, 1, 2], pa.int16()))
    source = write(tmp_path / "source", small, numbers(3))
    assert convert_parquet(source, str(tmp_path / "mds")).to_table() == pa.concat_tables(
        [numbers(3)] * 2
    )


ROWS = 60_000
#: The number of columns. Each value takes 8 bytes, so a row takes 120 bytes.
COLUMNS = 15
SHARD = 1 << 20


def source(directory: Path, copies: int) -> ParquetDataset:
    """Return a dataset with one row group of `copies` times 7 MB."""
    directory.mkdir()
    numbers = np.arange(ROWS * copies) % 1000
    table = pa.table({f"c{i:02}": numbers + i for i in range(COLUMNS)})
    pq.write_table(table, directory / "0.parquet", row_group_size=len(table))
    return open_parquet(str(directory))


def most_memory(call: Callable[[], object]) -> int:
    """Return the peak number of bytes allocated by Python, NumPy and Arrow during a call."""
    done, most = threading.Event(), 0

    def watch() -> None:
        nonlocal most
        while not done.wait(0.001):
            most = max(most, pa.total_allocated_bytes() - before)

    before = pa.total_allocated_bytes()
    thread = threading.Thread(target=watch)
    tracemalloc.start()
    thread.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] + most
    finally:
        done.set()
        thread.join()
        tracemalloc.stop()


@pytest.mark.long
def test_memory_does_not_grow_with_row_group_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_to_mds, "BATCH_BYTES", 1 << 20)
    small, large = source(tmp_path / "small", 1), source(tmp_path / "large", 6)

    def convert(dataset: ParquetDataset, name: str) -> int:
        target = str(tmp_path / name)
        return most_memory(partial(convert_parquet, dataset, target, shard_size=SHARD, workers=1))

    convert(small, "once and for all")
    # The larger row group is 36 MB larger.
    assert convert(large, "a") < convert(small, "b") + 12_000_000
    once, six = (
        most_memory(partial(compare, dataset, dataset, threads=1)) for dataset in (small, large)
    )
    assert six < once + 2 * 12_000_000  # both sides are read
