"""Rows of any schema survive a round trip through Parquet files and MDS converted from them."""

import tempfile
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pyspark.sql import types
from tests.unit.compat.etl.golden_rows import assert_rows, assert_same, read_rows

from mdstorm import make_reader
from mdstorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from mdstorm.etl.dataset_metadata import materialize_dataset
from mdstorm.pytorch import DataLoader
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm.utils import decode_row

FORMATS: tuple[Literal["parquet"], Literal["mds"]] = ("parquet", "mds")
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
BINARIES = st.binary(max_size=5).filter(lambda b: not b.endswith(b"\0"))
#: Scalar NumPy types, the Spark and Arrow types that store them, and strategies for their values.
SCALARS: list[tuple[Any, Any, pa.DataType, Any]] = [
    (np.int8, types.ByteType, pa.int8(), st.integers(-128, 127)),
    (np.uint8, types.ShortType, pa.int16(), st.integers(0, 255)),
    (np.uint32, types.LongType, pa.int64(), st.integers(0, 2**32 - 1)),
    (np.int64, types.LongType, pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (np.float32, types.FloatType, pa.float32(), st.floats(width=32, allow_nan=False)),
    (np.float64, types.IntegerType, pa.int32(), st.integers(-1000, 1000)),
    (np.bool_, types.BooleanType, pa.bool_(), st.booleans()),
    (np.str_, types.StringType, pa.string(), TEXTS),
    (np.bytes_, types.BinaryType, pa.binary(), BINARIES),
    (
        Decimal,
        partial(types.DecimalType, 9, 2),
        pa.decimal128(9, 2),
        st.decimals(-99, 99, places=2),
    ),
    (np.datetime64, types.DateType, pa.date32(), st.dates()),
]
ARRAYS = ["int16", "uint64", "float16", "float32", "bool", "M8[s]", "<U3"]


@st.composite
def fields(draw: st.DrawFn, name: str) -> tuple[UnischemaField, pa.DataType, list[Any]]:
    """Draw a field, its Parquet type, and its encoded values."""
    nullable = draw(st.booleans())
    nulls = [nullable and draw(st.integers(0, 3)) == 0 for _ in range(6)]
    kind = draw(st.sampled_from(["scalar", "scalar", "array", "array", "image"]))
    if kind == "scalar":
        dtype, spark, type_, values = draw(st.sampled_from(SCALARS))
        # Readers return nulls in floating-point columns as NaN.
        nullable = nullable and not issubclass(dtype, np.floating)
        field = UnischemaField(name, dtype, (), ScalarCodec(spark()), nullable)
        return field, type_, [None if n and nullable else draw(values) for n in nulls]
    if kind == "image":
        codec = CompressedImageCodec("png")
        shape: tuple[int | None, ...] = draw(st.sampled_from([(2, 3), (None, 3), (2, None, 3)]))
        dtype = draw(st.sampled_from([np.uint8, np.uint16]))
    else:
        codec = draw(st.sampled_from([NdarrayCodec(), CompressedNdarrayCodec()]))
        shape = tuple(draw(st.lists(st.none() | st.integers(1, 3), max_size=3)))
        # Exclude scalar strings: decoding does not keep the length of their dtype.
        dtype = np.dtype(draw(st.sampled_from(ARRAYS if shape else ARRAYS[:-1]))).type
    field = UnischemaField(name, dtype, shape, codec, nullable)
    least = 1 if kind == "image" else 0
    encoded = []
    for null in nulls:
        size = tuple(draw(st.integers(least, 3)) if n is None else n for n in shape)
        exact = {np.str_: np.dtype("<U3"), np.datetime64: np.dtype("M8[s]")}.get(dtype, dtype)
        array = draw(hnp.arrays(exact, size))
        encoded.append(None if null else bytes(codec.encode(field, array)))
    return field, pa.binary(), encoded


@st.composite
def datasets(draw: st.DrawFn) -> tuple[Unischema, pa.Table]:
    drawn = [draw(fields(f"f{i}")) for i in range(draw(st.integers(1, 4)))]
    schema = Unischema("S", [UnischemaField("id", np.int64, ()), *(field for field, _, _ in drawn)])
    columns = {field.name: pa.array(values, type_) for field, type_, values in drawn}
    return schema, pa.table({"id": pa.array(range(6)), **columns})


@settings(deadline=None, max_examples=20)
@given(datasets(), st.integers(1, 6))
def test_rows_of_any_schema_survive_a_round_trip(
    dataset: tuple[Unischema, pa.Table], per_group: int
) -> None:
    schema, table = dataset
    expected = [decode_row(row, schema) for row in table.to_pylist()]
    with tempfile.TemporaryDirectory() as directory:
        for storage_format in FORMATS:
            target = Path(directory) / storage_format
            with materialize_dataset(None, target.as_uri(), schema, storage_format=storage_format):
                target.mkdir()
                pq.write_table(table, target / "a.parquet", row_group_size=per_group)
            assert (target / "index.json").exists() == (storage_format == "mds")
            assert_rows(read_rows(target.as_uri()), expected)


@pytest.mark.parametrize("storage_format", ["parquet", "mds"])
def test_null_in_float_field_with_array_codec_is_none(tmp_path: Path, storage_format: Any) -> None:
    schema = Unischema("S", [UnischemaField("x", np.float32, (), NdarrayCodec(), True)])
    encoded = bytes(NdarrayCodec().encode(schema.x, np.array(np.nan, np.float32)))
    with materialize_dataset(None, f"file://{tmp_path}", schema, storage_format=storage_format):
        pq.write_table(pa.table({"x": [encoded, None]}), tmp_path / "a.parquet")
    with make_reader(f"file://{tmp_path}", shuffle_row_groups=False) as reader:
        first, second = (row.x for row in reader)
    assert isinstance(first, np.ndarray)
    assert np.isnan(first)
    assert second is None


@pytest.mark.parametrize("storage_format", ["parquet", "mds"])
@pytest.mark.parametrize("dtype", ["M8[s]", "M8[ns]", "m8[s]"])
def test_scalar_time_field_keeps_its_unit_and_value(
    dtype: str, storage_format: Any, tmp_path: Path
) -> None:
    stored = np.array(1_577_836_800, "M8[s]" if dtype == "M8[ns]" else dtype).astype(dtype)
    schema = Unischema("S", [UnischemaField("at", stored.dtype.type, (), NdarrayCodec(), False)])
    url, encoded = f"file://{tmp_path}", bytes(NdarrayCodec().encode(schema.at, stored))
    with materialize_dataset(None, url, schema, storage_format=storage_format):
        pq.write_table(pa.table({"at": [encoded] * 2}), tmp_path / "a.parquet")
    with make_reader(url) as reader:
        for row in reader:
            assert_same(row.at, stored)
            assert row.at == stored


def test_scalar_timestamps_are_nanoseconds_in_torch_and_tensorflow(
    tmp_path: Path,
) -> None:
    from mdstorm.tf_utils import make_petastorm_dataset

    schema = Unischema("S", [UnischemaField("at", np.datetime64, (), NdarrayCodec(), False)])
    url = f"file://{tmp_path}"
    encoded = bytes(NdarrayCodec().encode(schema.at, np.array("2020-01-01", "M8[s]")))
    with materialize_dataset(None, url, schema):
        pq.write_table(pa.table({"at": [encoded] * 2}), tmp_path / "a.parquet")
    with DataLoader(make_reader(url), 2) as loader:
        (batch,) = loader
    with make_reader(url) as reader:
        (rows,) = make_petastorm_dataset(reader).batch(2)
    assert batch["at"].tolist() == rows.at.numpy().tolist() == [1_577_836_800_000_000_000] * 2
