from typing import Any

import pyarrow as pa
import pytest
from tests.mds_backend.small_datasets import array_of, map_of, struct_of

from mdstorm_backend.errors import UnsupportedTypeError
from mdstorm_backend.format.schema import Column
from mdstorm_backend.format.type_plan import check_columns, plan_batch


def planned(type_: pa.DataType, encoding: str | None = None) -> Column:
    columns = None if encoding is None else {"v": encoding}
    (column,) = plan_batch(pa.schema([("v", type_)]), columns)
    return column


@pytest.mark.parametrize(
    ("type_", "encoding", "spark_type"),
    [
        (pa.bool_(), "uint8", "boolean"),
        (pa.int8(), "int8", "byte"),
        (pa.int64(), "int64", "long"),
        (pa.float32(), "float32", "float"),
        (pa.float64(), "float64", "double"),
        (pa.date64(), "int32", "date"),
        (pa.timestamp("ns"), "int64", "timestamp_ntz"),
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
        # What Spark has no word for.
        (pa.uint8(), "uint8", None),
        (pa.uint64(), "uint64", None),
        (pa.float16(), "float16", None),
        (pa.list_(pa.uint16()), "ndarray:uint16", None),
    ],
    ids=str,
)
def test_every_type_has_an_encoding_of_its_own(
    type_: pa.DataType, encoding: str, spark_type: Any
) -> None:
    column = planned(type_)
    assert (column.encoding, column.spark_type) == (encoding, spark_type)
    # Given by name it is the same plan.
    assert planned(type_, encoding).spark_type == spark_type


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        (pa.null(), "null"),
        (pa.time64("us"), "time64"),
        (pa.list_(pa.null()), "list"),
        (pa.struct([("a", pa.float16())]), "struct"),
        (pa.struct([("a", pa.uint8())]), "struct"),
        (pa.month_day_nano_interval(), "month_day_nano_interval"),
        (pa.fixed_shape_tensor(pa.int8(), (2, 3), permutation=[1, 0]), ".*fixed_shape_tensor"),
        (pa.fixed_shape_tensor(pa.int8(), (2, 0)), ".*fixed_shape_tensor"),
    ],
    ids=str,
)
def test_types_that_no_reader_would_know_are_refused(type_: pa.DataType, name: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=f"'v': type {name}") as caught:
        planned(type_)
    assert list(caught.value.columns) == ["v"]


def test_the_order_and_the_nullability_are_those_of_the_data() -> None:
    schema = pa.schema(
        [pa.field("b", pa.int8(), nullable=False), ("a", pa.int8()), ("c", pa.int8())]
    )
    assert [(c.name, c.nullable) for c in plan_batch(schema, None)] == [
        ("b", False),
        ("a", True),
        ("c", True),
    ]
    assert plan_batch(schema, {"a": "int", "b": "int8"}).names == ("b", "a")


def test_a_shape_of_several_dimensions_says_more_than_a_list() -> None:
    assert planned(pa.list_(pa.int8()), "ndarray:int8:2,3").spark_type is None
    assert planned(pa.list_(pa.int8()), "ndarray:int8:6").spark_type == array_of("byte")


def test_tensors_whose_dimensions_are_in_order_have_their_shape() -> None:
    type_ = pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=[0, 1])
    assert planned(type_).encoding == "ndarray:float32:2,3"


def test_all_that_is_wrong_is_named() -> None:
    schema = pa.schema([("a", pa.int8()), ("b", pa.string()), ("c", pa.int8())])
    with pytest.raises(UnsupportedTypeError, match=r"'a' cannot be .*: int8 as 'str'; .*'b'") as e:
        plan_batch(schema, {"a": "str", "b": "int", "c": "int"})
    assert list(e.value.columns) == ["a", "b"]
    with pytest.raises(UnsupportedTypeError) as e:
        check_columns({"x": "nope", "y": "int", "z": "ndarray:int8:0"})
    assert e.value.columns == {"x": "nope", "z": "ndarray:int8:0"}


@pytest.mark.parametrize("columns", [{}, None, ["a"], {"a": 5}, {5: "int"}], ids=str)
def test_columns_are_a_dict_of_texts(columns: Any) -> None:
    with pytest.raises(UnsupportedTypeError):
        check_columns(columns)
