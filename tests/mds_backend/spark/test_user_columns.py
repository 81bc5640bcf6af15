"""Which encodings a user may give for the columns of a DataFrame."""

from typing import Any

import pytest
from tests.mds_backend.small_datasets import array_of, map_of, struct_of

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedTypeError
from mdstorm_backend.spark.dataframe_to_mds import plan_columns

VECTOR = {"type": "udt", "pyClass": "pyspark.ml.linalg.VectorUDT", "sqlType": {}}


def field(name: str, spark_type: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": spark_type, "nullable": nullable}


def test_without_columns_all_are_planned_and_doubles_stay() -> None:
    schema = plan_columns([field("b", "double"), field("a", array_of("double"), False)], None)
    assert [(c.name, c.encoding, c.nullable) for c in schema] == [
        ("b", "float64", True),
        ("a", "ndarray:float64", False),
    ]


def test_columns_choose_in_the_order_of_the_frame() -> None:
    fields = [field(name, "long") for name in "cab"]
    assert plan_columns(fields, {"b": "int", "c": "int64"}).names == ("c", "b")


@pytest.mark.parametrize(
    ("spark_type", "encoding"),
    [
        ("byte", "int8"), ("boolean", "uint8"), ("date", "int32"), ("timestamp", "int64"),
        ("decimal(10,2)", "str_decimal"), ("string", "str"), ("binary", "bytes"),
        (array_of("integer"), "ndarray:int32"), (array_of("integer"), "ndarray:int32:2"),
        ({**array_of("integer"), "containsNull": False}, "ndarray:int32"),
        (array_of("boolean"), "ndarray:uint8"), (struct_of(a="long"), "json"),
        (map_of("string", "decimal(5,1)"), "json"), (array_of(array_of("double")), "json"),
        (VECTOR, "ndarray:float64"), (VECTOR, "ndarray:float64:3"),
    ],
    ids=str,
)  # fmt: skip
def test_an_encoding_of_the_type_itself_keeps_the_type(spark_type: Any, encoding: str) -> None:
    (column,) = plan_columns([field("v", spark_type)], {"v": encoding})
    assert (column.encoding, column.spark_type) == (encoding, spark_type)


@pytest.mark.parametrize(
    ("spark_type", "encoding"),
    [
        ("byte", "uint8"), ("long", "int"), ("long", "int32"), ("integer", "float32"),
        ("double", "int8"), ("double", "float32"), ("double", "str_float"), ("long", "str_int"),
        ("boolean", "int"), ("boolean", "str"), ("date", "str"), ("timestamp", "str"),
        ("decimal(5,0)", "int64"), ("string", "json"), ("long", "json"), ("decimal(10,2)", "json"),
        ("boolean", "json"), (array_of("integer"), "json"), (array_of("integer"), "ndarray"),
        (array_of("integer"), "ndarray:int64"), (array_of("integer"), "ndarray:int32:2,3"),
        (array_of("double"), "ndarray:float32"), (VECTOR, "ndarray:float32"),
        (array_of("binary"), "jpeg_array"), (struct_of(a="long"), "pkl"),
        *(("binary", text) for text in ("png", "jpeg", "pil", "pkl", "str", "json", "list[png]")),
    ],
    ids=str,
)  # fmt: skip
def test_every_other_encoding_that_can_hold_the_values_is_taken(
    spark_type: Any, encoding: str
) -> None:
    (column,) = plan_columns([field("v", spark_type)], {"v": encoding})
    assert (column.encoding, column.spark_type) == (encoding, None)


@pytest.mark.parametrize(
    ("spark_type", "encoding"),
    [
        ("long", "str"), ("string", "int"), ("string", "bytes"), ("string", "jpeg"),
        ("binary", "int32"), ("float", "str_float"), ("double", "str_int"), ("long", "ndarray"),
        (array_of("integer"), "int32"), (array_of("string"), "ndarray"),
        (struct_of(a="long"), "str"),
    ],
    ids=str,
)  # fmt: skip
def test_an_encoding_that_cannot_hold_the_values_is_refused(spark_type: Any, encoding: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Mismatched types: column name 'v' is") as e:
        plan_columns([field("v", spark_type)], {"v": encoding})
    assert repr(encoding) in str(e.value)


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'w' is not a column of input dataframe"):
        plan_columns([field("v", "long")], {"v": "int", "w": "int"})


def test_what_no_shard_can_hold_is_refused_only_where_it_is_chosen() -> None:
    fields = [field("v", "long"), field("bad", "void")]
    assert plan_columns(fields, {"v": "int"}).names == ("v",)
    with pytest.raises(UnsupportedTypeError, match="'bad': type void"):
        plan_columns(fields, {"v": "int", "bad": "str"})
    with pytest.raises(UnsupportedTypeError, match="'bad': type void"):
        plan_columns(fields, None)


def test_unknown_encodings_and_repeated_names_are_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="is unsupported"):
        plan_columns([field("v", "long")], {"v": "int65"})
    with pytest.raises(InvalidArgumentError, match="occur more than once"):
        plan_columns([field("v", "long"), field("v", "long")], {"v": "int"})
