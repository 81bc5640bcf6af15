"""Encodings chosen for the columns of Arrow data and DataFrames."""

from typing import Any

import pyarrow as pa
import pytest
from tests.kit.small_datasets import array_of, map_of, struct_of

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedTypeError
from mdstorm_backend.format.schema import Column
from mdstorm_backend.format.type_plan import check_columns, plan_batch
from mdstorm_backend.spark.dataframe_to_mds import plan_columns


def planned(type_: pa.DataType, encoding: str | None = None) -> Column:
    columns = None if encoding is None else {"v": encoding}
    (column,) = plan_batch(pa.schema([("v", type_)]), columns)
    return column


@pytest.mark.parametrize(
    ("type_", "encoding", "spark_type"),
    [
        (pa.bool_(), "uint8", "boolean"), (pa.int8(), "int8", "byte"),
        (pa.int64(), "int64", "long"), (pa.float32(), "float32", "float"),
        (pa.float64(), "float64", "double"),
        (pa.date64(), "int32", "date"), (pa.timestamp("ns"), "int64", "timestamp_ntz"),
        (pa.timestamp("s", "Asia/Tokyo"), "int64", "timestamp"),
        (pa.duration("ms"), "int64", "interval day to second"),
        (pa.decimal128(12, 3), "str_decimal", "decimal(12,3)"),
        (pa.large_string(), "str", "string"),
        (pa.dictionary(pa.int8(), pa.string()), "str", "string"),
        *([(pa.string_view(), "str", "string")] if hasattr(pa, "string_view") else []),
        (pa.binary(5), "bytes", "binary"),
        (pa.list_(pa.float64(), 3), "ndarray:float64", array_of("double")),
        (pa.list_(pa.bool_()), "ndarray:uint8", array_of("boolean")),
        (pa.list_(pa.string()), "json", array_of("string")),
        (pa.struct([("a", pa.large_string())]), "json", struct_of(a="string")),
        (pa.map_(pa.string(), pa.int32()), "json", map_of("string", "integer")),
        # Types that do not exist in Spark.
        (pa.uint8(), "uint8", None), (pa.uint64(), "uint64", None), (pa.float16(), "float16", None),
        (pa.list_(pa.uint16()), "ndarray:uint16", None),
        (pa.struct([("a", pa.uint8())]), "json", struct_of(a="uint8")),
        (pa.struct([("a", pa.float16())]), "json", struct_of(a="float16")),
        (pa.list_(pa.null()), "json", array_of("null")),
    ],
    ids=str,
)  # fmt: skip
def test_each_arrow_type_has_an_encoding_and_a_spark_type_if_one_exists(
    type_: pa.DataType, encoding: str, spark_type: Any
) -> None:
    column = planned(type_)
    assert (column.encoding, column.spark_type) == (encoding, spark_type)
    # The plan is the same if the encodings are passed by name.
    assert planned(type_, encoding).spark_type == spark_type


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        (pa.null(), "null"),
        (pa.time64("us"), "time64"),
        (pa.month_day_nano_interval(), "month_day_nano_interval"),
        (pa.fixed_shape_tensor(pa.int8(), (2, 3), permutation=[1, 0]), ".*fixed_shape_tensor"),
        (pa.fixed_shape_tensor(pa.int8(), (2, 0)), ".*fixed_shape_tensor"),
    ],
    ids=str,
)
def test_types_that_readers_do_not_support_raise_error(type_: pa.DataType, name: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=f"'v': type {name}") as caught:
        planned(type_)
    assert list(caught.value.columns) == ["v"]


def test_plan_keeps_column_order_and_nullability() -> None:
    not_null = pa.field("b", pa.int8(), nullable=False)
    schema = pa.schema([not_null, ("a", pa.int8()), ("c", pa.int8())])
    found = [(column.name, column.nullable) for column in plan_batch(schema, None)]
    assert found == [("b", False), ("a", True), ("c", True)]
    assert plan_batch(schema, {"a": "int", "b": "int8"}).names == ("b", "a")


def test_multidimensional_encoding_has_no_spark_type() -> None:
    assert planned(pa.list_(pa.int8()), "ndarray:int8:2,3").spark_type is None
    assert planned(pa.list_(pa.int8()), "ndarray:int8:6").spark_type == array_of("byte")
    type_ = pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=[0, 1])
    assert planned(type_).encoding == "ndarray:float32:2,3"


def test_error_lists_all_invalid_columns() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.string()), ("c", pa.int8())])
    with pytest.raises(UnsupportedTypeError, match=r"'a' cannot be .*: int8 as 'str'; .*'b'") as e:
        plan_batch(schema, {"a": "str", "b": "int", "c": "int"})
    assert list(e.value.columns) == ["a", "b"]
    with pytest.raises(UnsupportedTypeError) as e:
        check_columns({"x": "nope", "y": "int", "z": "ndarray:int8:0"})
    assert e.value.columns == {"x": "nope", "z": "ndarray:int8:0"}


@pytest.mark.parametrize("columns", [{}, None, ["a"], {"a": 5}, {5: "int"}], ids=str)
def test_columns_that_are_not_a_dict_of_strings_raise_error(columns: Any) -> None:
    with pytest.raises(UnsupportedTypeError):
        check_columns(columns)


VECTOR = {"type": "udt", "pyClass": "pyspark.ml.linalg.VectorUDT", "sqlType": {}}


def field(name: str, spark_type: Any, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": spark_type, "nullable": nullable}


def test_all_columns_are_planned_by_default_and_doubles_stay_doubles() -> None:
    schema = plan_columns([field("b", "double"), field("a", array_of("double"), False)], None)
    found = [(column.name, column.encoding, column.nullable) for column in schema]
    assert found == [("b", "float64", True), ("a", "ndarray:float64", False)]


def test_selected_columns_keep_the_frames_order() -> None:
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
def test_given_encoding_keeps_the_spark_type_if_it_fits(spark_type: Any, encoding: str) -> None:
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
def test_encoding_that_fits_the_values_is_accepted(spark_type: Any, encoding: str) -> None:
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
def test_encoding_that_does_not_fit_the_values_raises_error(spark_type: Any, encoding: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Mismatched types: column name 'v' is") as e:
        plan_columns([field("v", spark_type)], {"v": encoding})
    assert repr(encoding) in str(e.value)


def test_column_missing_from_the_frame_raises_error() -> None:
    with pytest.raises(InvalidArgumentError, match="'w' is not a column of input dataframe"):
        plan_columns([field("v", "long")], {"v": "int", "w": "int"})


def test_unsupported_column_raises_error_only_if_selected() -> None:
    fields = [field("v", "long"), field("bad", "void")]
    assert plan_columns(fields, {"v": "int"}).names == ("v",)
    with pytest.raises(UnsupportedTypeError, match="'bad': type void"):
        plan_columns(fields, {"v": "int", "bad": "str"})
    with pytest.raises(UnsupportedTypeError, match="'bad': type void"):
        plan_columns(fields, None)


def test_unknown_encodings_and_repeated_names_raise_error() -> None:
    with pytest.raises(UnsupportedTypeError, match="unknown encodings"):
        plan_columns([field("v", "long")], {"v": "int65"})
    with pytest.raises(InvalidArgumentError, match="occur more than once"):
        plan_columns([field("v", "long"), field("v", "long")], {"v": "int"})
