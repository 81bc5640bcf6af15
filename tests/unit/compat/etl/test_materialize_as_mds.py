"""`materialize_dataset` with ``storage_format="mds"`` converts the Parquet files to MDS."""

import json
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.compat.etl.golden_rows import (
    SCHEMA,
    JsonCodec,
    assert_rows,
    assert_same,
    encoded,
    read_rows,
    row,
    write,
)

from mdstorm.codecs import NdarrayCodec
from mdstorm.errors import DatasetExistsError, PetastormMetadataGenerationError
from mdstorm.etl.dataset_metadata import get_schema_from_dataset_url, materialize_dataset
from mdstorm.etl.rowgroup_indexers import SingleFieldIndexer
from mdstorm.etl.rowgroup_indexing import build_rowgroup_index
from mdstorm.reader import make_reader
from mdstorm.selectors import SingleIndexSelector
from mdstorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from mdstorm_backend import open_dataset

materialize = partial(materialize_dataset, storage_format="mds")


def assert_holds(directory: Path, numbers: range, schema: Unischema = SCHEMA) -> None:
    url = directory.as_uri()
    assert len(open_dataset(url)) == len(numbers)
    assert str(get_schema_from_dataset_url(url)) == str(schema)
    assert_rows(read_rows(url), [row(i) for i in numbers])


def test_rows_written_in_the_block_are_stored_as_mds(tmp_path: Path) -> None:
    target = tmp_path / "data"
    with materialize(None, f"file://{target}", SCHEMA, row_group_size_mb=1):
        write(target, "a.parquet", range(20))
        write(target, "b.parquet", range(20, 30))
        (target / "_SUCCESS").touch()
        (target / ".a.parquet.crc").touch()
    assert_holds(target, range(30))
    assert {path.suffix for path in target.iterdir()} == {"", ".json", ".mds"}
    assert not (target / "_SUCCESS").exists()
    assert str(get_schema_from_dataset_url(f"file://{target}")) == str(SCHEMA)


def test_no_files_are_converted_or_removed_if_block_raises(tmp_path: Path) -> None:
    def fail() -> None:
        with materialize(None, f"file://{tmp_path}", SCHEMA):
            write(tmp_path, "a.parquet", range(5))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_existing_files_are_converted_and_kept(tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", range(5))
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "_metadata.txt").write_text("mine")
    changed = write(tmp_path, "changed.parquet", range(1))
    with materialize(None, f"file://{tmp_path}/", SCHEMA):
        write(tmp_path, "b.parquet", range(5, 8))
        write(tmp_path, changed.name, range(8, 12))
        (tmp_path / "new.txt").write_text("mine, too")
        (tmp_path / "notes.txt").unlink()  # otherwise, the files could not be read as Parquet
        (tmp_path / "new.txt").rename(tmp_path / "_new.txt")
    assert_holds(tmp_path, range(12))
    names = {path.name for path in tmp_path.iterdir() if path.suffix != ".mds"}
    assert names == {"a.parquet", "_metadata.txt", "_new.txt", "index.json", "_mdstorm"}


def test_partition_values_have_their_field_type(tmp_path: Path) -> None:
    schema = Unischema(
        "Parts",
        [
            UnischemaField("id", np.int64, ()),
            UnischemaField("text", np.str_, (), None, True),
            UnischemaField("number", np.int32, ()),
        ],
    )
    with materialize(None, f"file://{tmp_path}", schema):
        for text, number in (("01", "007"), ("1", "8"), ("__HIVE_DEFAULT_PARTITION__", "9")):
            directory = tmp_path / f"text={text}" / f"number={number}"
            directory.mkdir(parents=True)
            pq.write_table(pa.table({"id": [int(number)]}), directory / "a.parquet")
    rows = [open_dataset(str(tmp_path))[i] for i in range(3)]
    assert sorted(map(str, rows)) == sorted(
        str({"id": np.int64(i), "text": text, "number": np.int32(i)})
        for i, text in ((7, "01"), (8, "1"), (9, None))
    )


@pytest.mark.parametrize("then", ["mds", "parquet"])
def test_existing_mds_dataset_raises_error(tmp_path: Path, then: Any) -> None:
    with materialize(None, f"file://{tmp_path}", SCHEMA):
        write(tmp_path, "a.parquet", range(5))
    with (
        pytest.raises(DatasetExistsError, match=r"already holds an MDS dataset.*overwrite"),
        materialize_dataset(None, f"file://{tmp_path}", SCHEMA, storage_format=then),
    ):
        write(tmp_path, "b.parquet", range(5, 8))
    assert_holds(tmp_path, range(5))
    assert (tmp_path / "b.parquet").exists()


@pytest.mark.parametrize("damage", ["garbage", "missing", "shape", "value"])
def test_files_that_contradict_the_schema_raise_error_and_are_kept(
    tmp_path: Path, damage: str
) -> None:
    table = encoded(range(3))
    if damage == "missing":
        table = table.select([name for name in table.column_names if name != "mat"])
    elif damage == "shape":
        wrong = pa.array([bytes(NdarrayCodec().encode(SCHEMA.mat, row(3)["mat"]))] * 3)
        table = table.set_column(1, "vec", wrong)
    elif damage == "value":
        table = table.set_column(1, "vec", pa.array([b"\x93NUMPY" * 5] * 3))
    file = pa.BufferOutputStream()
    pq.write_table(table, file)
    content = b"garbage" if damage == "garbage" else file.getvalue().to_pybytes()
    with (
        pytest.raises(PetastormMetadataGenerationError, match="left unchanged"),
        materialize(None, f"file://{tmp_path}", SCHEMA),
    ):
        (tmp_path / "a.parquet").write_bytes(content)
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_each_row_group_becomes_a_shard(tmp_path: Path) -> None:
    with materialize(None, f"file://{tmp_path}", SCHEMA, row_group_size_mb=1):
        pq.write_table(encoded(range(8)), tmp_path / "a.parquet", row_group_size=3)
        write(tmp_path, "b.parquet", range(8, 10))
    assert open_dataset(str(tmp_path)).shard_sizes == (3, 3, 2, 2)
    build_rowgroup_index(tmp_path.as_uri(), None, [SingleFieldIndexer("by_id", "id")])
    selector = SingleIndexSelector("by_id", [4])
    with make_reader(tmp_path.as_uri(), rowgroup_selector=selector) as reader:
        assert sorted(row.id for row in reader) == [3, 4, 5]
    big = Unischema("Big", [UnischemaField("a", np.float64, (50_000,), NdarrayCodec())])
    value = bytes(NdarrayCodec().encode(big.a, np.zeros(50_000)))
    with materialize(None, f"file://{tmp_path}/big", big, row_group_size_mb=1):
        (tmp_path / "big").mkdir()
        pq.write_table(pa.table({"a": [value] * 7}), tmp_path / "big" / "a.parquet")
    assert open_dataset(str(tmp_path / "big")).shard_sizes == (7,)


@pytest.mark.parametrize("nulls", [[], [None]], ids=["no nulls", "nulls"])
@pytest.mark.parametrize(
    ("stored", "dtype", "shape", "values"),
    [
        ("string", np.int32, (), [5, -5]),
        ("binary", np.bool_, (), [True, False]),
        ("binary", np.str_, (), ["a", "ä"]),
        ("binary", Decimal, (), ["1.50", "2"]),
        ("string", np.datetime64, (), ["2024-05-31T00:00:00.000000", "1969-12-31T23:59:59.999999"]),
        ("string", np.float32, (None,), [[1], [1, 2, 3]]),
        ("binary", np.int16, (2, 1), [[[1], [2]], [[3], [4]]]),
    ],
    ids=str,
)
def test_user_defined_codec_values_are_stored_decoded(
    tmp_path: Path, stored: str, dtype: Any, shape: Any, values: list[Any], nulls: list[None]
) -> None:
    schema = Unischema("Own", [UnischemaField("x", dtype, shape, JsonCodec(), True)])
    table = pa.table({"x": pa.array([*map(json.dumps, values), *nulls], stored)})
    with materialize(None, f"file://{tmp_path}", schema):
        pq.write_table(table, tmp_path / "a.parquet")
    with make_reader(tmp_path.as_uri(), shuffle_row_groups=False) as reader:
        assert reader.schema.x.codec is None
        found = [row.x for row in reader]
    type_ = partial(np.array, dtype=dtype) if shape else dtype
    for one, wanted in zip(found, [*map(type_, values), *nulls], strict=True):
        assert_same(one, wanted)


class PandasCodec(JsonCodec):
    """A codec that decodes to pandas timestamps."""

    def decode(self, unischema_field: Any, value: Any) -> Any:
        return pd.Timestamp(json.loads(value))


@pytest.mark.parametrize(
    ("codec", "dtype", "value"),
    [
        (JsonCodec(), np.uint32, float("inf")),
        (JsonCodec(), np.datetime64, "2024-05-31T00:00:00.1234567"),
        (PandasCodec(), np.datetime64, "2024-05-31T00:00:00.1234567"),
    ],
)
def test_value_outside_field_range_raises_error(
    tmp_path: Path, codec: Any, dtype: Any, value: Any
) -> None:
    schema = Unischema("Own", [UnischemaField("x", dtype, (), codec, True)])
    with (
        pytest.raises(PetastormMetadataGenerationError, match='field "x" failed'),
        materialize(None, f"file://{tmp_path}", schema),
    ):
        pq.write_table(pa.table({"x": [json.dumps(value)]}), tmp_path / "a.parquet")


@pytest.mark.parametrize(("dtype", "shape"), [(np.str_, (2,)), (np.object_, ())], ids=str)
def test_field_whose_decoded_values_mds_cannot_store_raises_error(
    tmp_path: Path, dtype: Any, shape: Any
) -> None:
    schema = Unischema("Own", [UnischemaField("x", dtype, shape, JsonCodec())])
    with (
        pytest.raises(PetastormMetadataGenerationError, match="'x' has a custom codec and"),
        materialize(None, f"file://{tmp_path}", schema),
    ):
        pq.write_table(pa.table({"x": [b"{}"]}), tmp_path / "a.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_scalars_are_stored_with_their_field_type(tmp_path: Path) -> None:
    schema = Unischema(
        "Scalars",
        [
            UnischemaField("u8", np.uint8, ()),
            UnischemaField("u32", np.uint32, (), None, True),
            UnischemaField("price", Decimal, ()),
            UnischemaField("text", np.bytes_, ()),
            UnischemaField("array", np.int32, (), NdarrayCodec(), True),
        ],
    )
    table = pa.table(
        {
            "u8": pa.array([0, 255], pa.int16()),
            "u32": pa.array([None, 2**32 - 1], pa.int64()),
            "price": ["1.50", "2"],
            "text": ["a", "ä"],
            "array": [bytes(NdarrayCodec().encode(schema.array, np.array(7, np.int32))), None],
            "other": [1.5, 2.5],
        }
    )
    with materialize(None, f"file://{tmp_path}", schema):
        pq.write_table(table, tmp_path / "a.parquet")
    dataset = open_dataset(str(tmp_path))
    assert dataset.schema.names == ("u8", "u32", "price", "text", "array", "other")
    assert dataset[0]["u8"].dtype == np.uint8
    assert [dataset[i]["u32"] for i in (0, 1)] == [None, 2**32 - 1]
    assert [dataset[i]["price"] for i in (0, 1)] == [Decimal("1.50"), Decimal(2)]
    assert dataset[1]["text"] == "ä".encode()
    assert [dataset[i]["array"] for i in (0, 1)] == [7, None]
    assert dataset[1]["other"] == 2.5


@pytest.mark.long
def test_materialize_with_spark_writes_mds_dataset(spark: Any, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/data"
    for last in (9, 12):
        with materialize(spark, url, SCHEMA, row_group_size_mb=8):
            rows = [dict_to_spark_row(SCHEMA, row(i)) for i in range(last)]
            frame = spark.createDataFrame(rows, SCHEMA.as_spark_schema())
            frame.repartition(2).write.mode("overwrite").partitionBy("split").parquet(url)
        assert_holds(tmp_path / "data", range(last))
        assert not [path for path in (tmp_path / "data").iterdir() if path.is_dir()]
