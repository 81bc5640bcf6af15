from __future__ import annotations

import pyarrow as pa
import pytest
from tests.mds_backend.small_datasets import array_of, map_of, struct_of

from mdstorm_backend.format.values.spark_types import SparkType, arrow_type, is_vector, simple_name

ML_VECTOR = {
    "type": "udt",
    "class": "org.apache.spark.ml.linalg.VectorUDT",
    "pyClass": "pyspark.ml.linalg.VectorUDT",
}
SCALA_VECTOR = {"type": "udt", "class": "org.apache.spark.mllib.linalg.VectorUDT"}
OTHER_UDT = {"type": "udt", "class": "org.apache.spark.ml.linalg.MatrixUDT"}


@pytest.mark.parametrize(
    ("spark_type", "expected"),
    [
        ("boolean", pa.bool_()),
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("string", pa.string()),
        ("char(3)", pa.string()),
        ("varchar(20)", pa.string()),
        ("string collate UNICODE_CI", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("interval day to second", pa.duration("us")),
        ("interval hour", pa.duration("us")),
        ("decimal(10,2)", pa.decimal128(10, 2)),
        ("decimal(5,-2)", pa.decimal128(5, -2)),
        (array_of("long"), pa.list_(pa.int64())),
        (array_of(array_of("date")), pa.list_(pa.list_(pa.date32()))),
        (map_of("string", "double"), pa.map_(pa.string(), pa.float64())),
        (struct_of(a="long", b="string"), pa.struct([("a", pa.int64()), ("b", pa.string())])),
        (struct_of(), pa.struct([])),
        (ML_VECTOR, pa.list_(pa.float64())),
        (SCALA_VECTOR, pa.list_(pa.float64())),
    ],
    ids=str,
)
def test_the_arrow_type_of_each_spark_type(spark_type: SparkType, expected: pa.DataType) -> None:
    assert arrow_type(spark_type) == expected


@pytest.mark.parametrize(
    "spark_type",
    [
        "void",
        "variant",
        "interval year to month",
        "interval month",
        "calendar_interval",
        OTHER_UDT,
        array_of("void"),
        map_of("string", "variant"),
        struct_of(a=array_of("interval year")),
    ],
    ids=str,
)
def test_what_has_no_counterpart_is_a_key_error(spark_type: SparkType) -> None:
    with pytest.raises(KeyError):
        arrow_type(spark_type)


def test_vectors_are_known_by_their_class() -> None:
    assert is_vector(ML_VECTOR)
    assert is_vector(SCALA_VECTOR)
    assert not is_vector(OTHER_UDT)
    assert not is_vector(array_of("double"))
    assert not is_vector("double")


@pytest.mark.parametrize(
    ("spark_type", "name"),
    [
        ("long", "long"),
        (array_of(array_of("long")), "array<array<long>>"),
        (map_of("string", array_of("date")), "map<string,array<date>>"),
        (struct_of(a="long", b=struct_of(c="string")), "struct<a:long,b:struct<c:string>>"),
        (ML_VECTOR, "vector"),
        (OTHER_UDT, "org.apache.spark.ml.linalg.MatrixUDT"),
    ],
    ids=str,
)
def test_types_have_short_names_for_messages(spark_type: SparkType, name: str) -> None:
    assert simple_name(spark_type) == name
