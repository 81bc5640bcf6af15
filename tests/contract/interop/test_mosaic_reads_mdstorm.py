"""MosaicML Streaming reads datasets that mdstorm writes from a Spark DataFrame."""

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType, _parse_datatype_string
from tests.contract.interop.in_mosaic.describe import describe

from mdstorm.spark import make_spark_converter
from mdstorm_backend import dataframe_to_mds, materialize

UTC = timezone.utc
NAN = float("nan")
ROWS = 60
SHARD_SIZE = 24_000


@dataclass(frozen=True)
class Kind:
    """A kind of column: the values in Spark, which repeat, and what MosaicML Streaming reads."""

    spark_type: str
    given: list[Any]
    found: list[Any]


def numbers(spark_type: str, dtype: str, given: list[Any], found: list[Any]) -> Kind:
    return Kind(spark_type, given, [np.dtype(dtype).type(value) for value in found])


def arrays(
    spark_type: str, dtype: str, given: list[Any], found: list[list[Any]] | None = None
) -> Kind:
    """A column of arrays; without `found`, the expected values are the given values."""
    return Kind(spark_type, given, [np.array(value, dtype) for value in found or given])


KINDS = {
    # Depending on the type, a null is read as 0, NaN, an empty value or a JSON null.
    "boolean": numbers("boolean", "uint8", [True, False, None], [1, 0, 0]),
    "byte": numbers("tinyint", "int8", [-128, 127, None], [-128, 127, 0]),
    "short": numbers("smallint", "int16", [-(2**15), None], [-(2**15), 0]),
    "integer": numbers("int", "int32", [2**31 - 1, None, 5], [2**31 - 1, 0, 5]),
    "long": numbers("bigint", "int64", [-(2**63), None], [-(2**63), 0]),
    "float": numbers("float", "float32", [0.1, NAN, None, -0.0], [0.1, NAN, NAN, -0.0]),
    "double": numbers("double", "float64", [0.1, float("inf"), None], [0.1, float("inf"), NAN]),
    "decimal": Kind(
        "decimal(20,3)",
        [Decimal("12345678901234567.890"), Decimal("-0.500"), None],
        [Decimal("12345678901234567.890"), Decimal("-0.500"), Decimal("NaN")],
    ),
    "string": Kind("string", ["", "é\0🙂\n", None, "a"], ["", "é\0🙂\n", "", "a"]),
    "binary": Kind("binary", [b"", bytes(range(256)), None], [b"", bytes(range(256)), b""]),
    "date": numbers(
        "date", "int32", [date(1969, 12, 31), None, date(2024, 2, 29)], [-1, 0, 19_782]
    ),
    "timestamp": numbers(
        "timestamp",
        "int64",
        [datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(1970, 1, 2, tzinfo=UTC), None],
        [-1_000_000, 86_400_000_000, 0],
    ),
    "timestamp without zone": numbers(
        "timestamp_ntz", "int64", [datetime(1970, 1, 1, 0, 0, 0, 7), None], [7, 0]
    ),
    "interval": numbers(
        "interval day to second",
        "int64",
        [timedelta(days=-1, microseconds=1), None],
        [-86_399_999_999, 0],
    ),
    "fixed array": arrays("array<float>", "float32", [[1.0, -0.0, NAN], [0.1, 2.0, float("-inf")]]),
    "fixed array with nulls": arrays(
        "array<int>", "int32", [[1, None], [3, 4], None], [[1, 0], [3, 4], [0, 0]]
    ),
    "ragged array": arrays(
        "array<bigint>", "int64", [[], [1], [2, None, 4], None], [[], [1], [2, 0, 4], []]
    ),
    "empty array": arrays("array<double>", "float64", [[]]),
    # The first array's length is stored in one byte, the second array's in two bytes.
    "long array": arrays("array<tinyint>", "int8", [[1] * 255, [2] * 256]),
    "arrays of the same length at first": arrays(
        "array<double>",
        "float64",
        [[float(i), 0.5] if i < ROWS // 2 else [0.5] * (i % 3) for i in range(ROWS)],
    ),
    "boolean array": arrays("array<boolean>", "uint8", [[True, None], [False]], [[1, 0], [0]]),
    "date array": arrays("array<date>", "int32", [[date(1970, 1, 2)], None], [[1], [0]]),
    "timestamp array": arrays(
        "array<timestamp>", "int64", [[datetime(1970, 1, 1, tzinfo=UTC)] * 2, []], [[0, 0], []]
    ),
    "vector": arrays(
        "vector",
        "float64",
        [Vectors.dense([0.1, -0.0]), Vectors.sparse(2, {1: 3.0}), None],
        [[0.1, -0.0], [0.0, 3.0], [NAN, NAN]],
    ),
    "array of strings": Kind(
        "array<string>", [['a"\\', None], [], None], [['a"\\', None], [], None]
    ),
    "nested array": arrays(
        "array<array<float>>",
        "float32",
        [[[1.0, NAN, 0.1], [2.0, 3.0, None]], None],
        [[[1.0, NAN, 0.1], [2.0, 3.0, NAN]], [[NAN] * 3] * 2],
    ),
    "nested array of three levels": arrays(
        "array<array<array<boolean>>>", "uint8", [[[[True], [False]]]], [[[[1], [0]]]]
    ),
    "nested array of several shapes": arrays(
        "array<array<int>>",
        "int32",
        [[[1, 2, 3]], [[1], [None]], [[1] * 256], [[], []]],
        [[[1, 2, 3]], [[1], [0]], [[1] * 256], [[], []]],
    ),
    "array of arrays": Kind(
        "array<array<double>>", [[[0.1], [], None], None], [[[0.1], [], None], None]
    ),
    "struct": Kind(
        "struct<x:int, y:array<string>, z:decimal(4,1), b:binary>",
        [(1, ["é"], Decimal("2.5"), b"\xff"), (None, None, None, None), None],
        [
            {"x": 1, "y": ["é"], "z": "2.5", "b": "/w=="},
            {"x": None, "y": None, "z": None, "b": None},
            None,
        ],
    ),
    "map": Kind(
        "map<string,struct<t:timestamp>>",
        [{"k": (datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC),)}, {}, None],
        [[["k", {"t": "2024-02-29 01:02:03.000004Z"}]], [], None],
    ),
}


#: Fixed-size columns; samples with only these columns have separate code paths.
FIXED_SIZE = [
    *(name for name, kind in KINDS.items() if isinstance(kind.found[0], np.generic)),
    *("fixed array", "fixed array with nulls", "vector"),
    *("nested array", "nested array of three levels"),
]


def data_frame(spark: SparkSession) -> DataFrame:
    fields = []
    for name, kind in KINDS.items():
        is_vector = kind.spark_type == "vector"
        type_ = VectorUDT() if is_vector else _parse_datatype_string(kind.spark_type)
        fields.append(StructField(name, type_))
    rows = [tuple(kind.given[i % len(kind.given)] for kind in KINDS.values()) for i in range(ROWS)]
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), StructType(fields))


@pytest.fixture(scope="module")
def datasets(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same rows, written by a converter, by a partitioned job, and with fewer columns."""
    parent = tmp_path_factory.mktemp("datasets")
    df = data_frame(spark)
    converter = make_spark_converter(
        df, SHARD_SIZE, dtype=None, parent_cache_dir_url=parent.as_uri()
    )
    written = {"none": Path(converter.cache_dir_url.removeprefix("file://"))}
    written["partitions"] = parent / "partitions"
    dataframe_to_mds(df, mds_kwargs={"out": str(written["partitions"]), "hashes": ["sha1"]})
    written["fixed size"] = parent / "fixed-size"
    fixed_size = df.select(*(f"`{name}`" for name in FIXED_SIZE))
    materialize(fixed_size, written["fixed size"].as_uri(), dtype=None, shard_size=6_000)
    return written


@pytest.mark.parametrize("reader", ["StreamingDataset", "LocalDataset"])
@pytest.mark.parametrize("name", KINDS)
def test_mosaic_reads_column_values(read: Any, reader: str, name: str) -> None:
    expected = [describe(KINDS[name].found[i % len(KINDS[name].found)]) for i in range(ROWS)]
    assert [sample[name] for sample in read["none"][reader]] == expected


@pytest.mark.parametrize("reader", ["StreamingDataset", "LocalDataset"])
def test_mosaic_reads_dataset_written_in_partitions(read: Any, reader: str) -> None:
    assert len(read["partitions"]["samples_per_shard"]) > 1
    assert read["partitions"][reader] == read["none"][reader]


@pytest.mark.parametrize("reader", ["StreamingDataset", "LocalDataset"])
def test_mosaic_reads_fixed_size_samples(read: Any, reader: str) -> None:
    assert len(read["fixed size"]["samples_per_shard"]) > 2
    assert read["fixed size"][reader] == [
        {name: sample[name] for name in sorted(FIXED_SIZE)} for sample in read["none"][reader]
    ]


def test_written_dataset_has_several_shards_with_different_encodings(
    read: Any, datasets: dict[str, Path]
) -> None:
    assert len(read["none"]["samples_per_shard"]) > 2
    shards = json.loads((datasets["none"] / "index.json").read_text())["shards"]
    name = "arrays of the same length at first"
    encodings = {s["column_encodings"][s["column_names"].index(name)] for s in shards}
    assert encodings == {"ndarray:float64:2", "ndarray:float64"}
