"""The type plan, which is built from a Spark schema's JSON without using Spark."""

from itertools import chain
from typing import Any

import pytest
from tests.kit.small_datasets import array_of, map_of, struct_of

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedTypeError
from mdstorm_backend.format.type_plan import plan_types
from mdstorm_backend.format.values.arrow_types import arrow_type, spark_type_of

DTYPES = ["float32", "float64", None]


def vector(library: str) -> dict[str, Any]:
    name = f"{library}.linalg.VectorUDT"
    return {"type": "udt", "class": f"org.apache.spark.{name}", "pyClass": f"pyspark.{name}"}


MATRIX = {"type": "udt", "class": "org.apache.spark.ml.linalg.MatrixUDT"}
FIELDS = [{"name": "a", "type": type_, "nullable": True} for type_ in ("long", "string")]
TWINS = {"type": "struct", "fields": FIELDS}


def fields(**types: Any) -> list[dict[str, Any]]:
    return [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in types.items()]


def encoding_of(spark_type: Any, dtype: str | None = "float32") -> str:
    return plan_types(fields(x=spark_type), dtype)["x"].encoding


ENCODINGS: dict[str, list[Any]] = {
    "uint8": ["boolean"],
    "int8": ["byte"],
    "int16": ["short"],
    "int32": ["integer", "date"],
    "int64": ["long", "timestamp", "timestamp_ntz", "interval day", "interval hour to second"],
    "str_decimal": ["decimal(10,2)", "decimal(38,38)", "decimal(2,-3)"],
    "str": ["string", "string collate UTF8_LCASE", "varchar(3)", "char(3)"],
    "bytes": ["binary"],
    "ndarray:uint8": [array_of("boolean"), array_of(array_of(array_of("boolean")))],
    "ndarray:int8": [array_of("byte")],
    "ndarray:int16": [array_of("short")],
    "ndarray:int32": [array_of("integer"), array_of("date")],
    "ndarray:int64": [
        *(array_of(type_) for type_ in ("long", "timestamp", "timestamp_ntz", array_of("long"))),
        array_of("interval day to second"),
    ],
    "json": [
        *(array_of(type_) for type_ in ("string", "binary", "decimal(4,2)")),
        *(array_of(array_of(type_)) for type_ in ("timestamp", "decimal(4,2)", "string")),
        *(array_of(struct_of(a="double")), struct_of(a="double"), map_of("string", "double")),
    ],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_dtype_does_not_change_encodings_without_floats(encoding: str, dtype: str | None) -> None:
    for spark_type in ENCODINGS[encoding]:
        assert encoding_of(spark_type, dtype) == encoding, spark_type


@pytest.mark.parametrize(
    ("spark_type", "as_float32", "as_float64", "kept"),
    [
        ("float", "float32", "float64", "float32"),
        ("double", "float32", "float64", "float64"),
        (array_of("float"), "ndarray:float32", "ndarray:float64", "ndarray:float32"),
        (array_of("double"), "ndarray:float32", "ndarray:float64", "ndarray:float64"),
        (vector("ml"), "ndarray:float32", "ndarray:float64", "ndarray:float64"),
        (vector("mllib"), "ndarray:float32", "ndarray:float64", "ndarray:float64"),
    ],
    ids=["float", "double", "array<float>", "array<double>", "ml vector", "mllib vector"],
)
def test_dtype_casts_scalars_arrays_and_vectors(
    spark_type: Any, as_float32: str, as_float64: str, kept: str
) -> None:
    assert [encoding_of(spark_type, dtype) for dtype in DTYPES] == [as_float32, as_float64, kept]


#: Supported types whose names contain an unsupported type's name.
TIMES = ("timestamp", "interval day to second")


@pytest.mark.parametrize(
    ("spark_type", "name", "remedy"),
    [
        ("void", "void", "give it a type"),
        ("variant", "variant", "to_json"),
        ("interval", "interval", "extract"),
        *((name, name, "CAST(column AS INT)") for name in ("interval month", "interval year")),
        ("interval year to month", "interval year to month", "extract(YEAR FROM column) * 12"),
        ("time(6)", "time(6)", "CAST(column AS STRING)"),
        ("geometry(4326)", "geometry(4326)", "st_asbinary(column)"),
        ("geography(any)", "geography(any)", "st_asbinary(column)"),
        (MATRIX, "MatrixUDT", "convert it first"),
        (array_of("void"), "array<void>", "give it a type"),
        (struct_of(a="long", b="variant"), "struct<a:long,b:variant>", "to_json"),
        (map_of("string", "interval year"), "map<string,interval year>", "CAST(column AS INT)"),
        (array_of(vector("ml")), "array<vector>", "convert it first"),
        (struct_of(a=vector("ml")), "struct<a:vector>", "convert it first"),
        *((struct_of(t=type_, v=MATRIX), "MatrixUDT", "convert it first") for type_ in TIMES),
        (struct_of(time="long", v=MATRIX), "MatrixUDT", "convert it first"),
        (map_of("string", array_of(vector("ml"))), "array<vector>", "convert it first"),
        *(
            (type_, "struct<a:long,a:string>", "two fields with the same name; rename one")
            for type_ in (TWINS, array_of(TWINS), map_of("string", TWINS), struct_of(x=TWINS))
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_type_without_an_encoding_raises_error_with_the_fix(
    spark_type: Any, name: str, remedy: str
) -> None:
    with pytest.raises(UnsupportedTypeError) as caught:
        plan_types(fields(x=spark_type))
    assert name in str(caught.value)
    assert remedy in caught.value.columns["x"]


def test_error_lists_every_unsupported_column() -> None:
    with pytest.raises(UnsupportedTypeError, match="2 of 3 columns") as caught:
        plan_types(fields(first="void", good="long", second="variant"))
    assert list(caught.value.columns) == ["first", "second"]
    assert "'first'" in str(caught.value)
    assert "'second'" in str(caught.value)
    assert "'good'" not in str(caught.value)


def test_duplicate_column_names_raise_error() -> None:
    repeated = [*fields(x="long", y="long", z="long"), *fields(x="string", y="long")]
    for described, words in (
        ([], "no columns"),
        (fields(**{"x": "long", "": "long"}), "empty name"),
        (repeated, r"\['x', 'y'\] occur more than once"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            plan_types(described)


def test_columns_keep_order_spark_type_and_nullability() -> None:
    described = [*fields(z="double"), {"name": "a", "type": array_of("long"), "nullable": False}]
    z, a, m = plan_types([*described, {"name": "m", "type": "string"}])
    assert (z.name, z.spark_type, z.nullable) == ("z", "double", True)
    assert (a.name, a.spark_type, a.nullable) == ("a", array_of("long"), False)
    assert (m.name, m.spark_type, m.nullable) == ("m", "string", True)


@pytest.mark.parametrize(
    ("type_", "encoding", "stored"),
    [
        ("decimal(10,2)", "float64", "double"),
        (array_of("decimal(10,2)"), "ndarray:float64", array_of("double")),
        # Values inside structs and nested arrays are unchanged, as with `dtype`.
        (array_of(array_of("decimal(3,1)")), None, array_of(array_of("decimal(3,1)"))),
        ("double", "float32", "double"),
        ("long", "int64", "long"),
        ("string", "str", "string"),
    ],
)
def test_decimals_become_floats_on_request(type_: Any, encoding: Any, stored: Any) -> None:
    (column,) = plan_types(fields(x=type_), "float32", "float64")
    kept = plan_types(fields(x=type_), "float32")
    assert column.encoding == (encoding or kept["x"].encoding)
    assert column.spark_type == stored
    assert plan_types(fields(x=type_), "float32", "decimal") == kept


@pytest.mark.parametrize("spark_type", [*chain(*ENCODINGS.values()), "float", "double"], ids=str)
def test_spark_type_of_an_arrow_type_has_that_arrow_type(spark_type: Any) -> None:
    type_ = arrow_type(spark_type)
    found = spark_type_of(type_)
    assert found is not None
    assert arrow_type(found) == type_
    same = "varchar", "char(", "string collate", "interval"
    assert found == spark_type or any(word in str(spark_type) for word in same)
