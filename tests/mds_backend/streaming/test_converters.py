"""`streaming.base.converters`: what a DataFrame becomes."""

from typing import Any

import pytest
from pyspark.sql import types as T  # noqa: N812

from mdstorm_backend.streaming.base.converters import infer_dataframe_schema, is_json_compatible


class Frame:
    """The part of a DataFrame that is looked at."""

    def __init__(self, **types: T.DataType) -> None:
        self.schema = T.StructType([T.StructField(n, t) for n, t in types.items()])


@pytest.mark.parametrize(
    ("data_type", "compatible"),
    [
        (T.MapType(T.StringType(), T.IntegerType()), True),
        (T.StructType([T.StructField("a", T.ArrayType(T.StringType()))]), True),
        (T.StructType([T.StructField("a", T.NullType())]), False),
        (T.YearMonthIntervalType(), False),
    ],
)
def test_what_is_stored_as_json(data_type: T.DataType, compatible: bool) -> None:
    assert is_json_compatible(data_type) is compatible


def test_encodings_of_a_frame() -> None:
    frame: Any = Frame(
        id=T.LongType(), price=T.DecimalType(8, 2), tokens=T.ArrayType(T.IntegerType())
    )
    expected = {"id": "int64", "price": "str_decimal", "tokens": "ndarray:int32"}
    assert infer_dataframe_schema(frame) == expected
    assert infer_dataframe_schema(frame, {"id": "int64"}) is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"no": "int64"}, "'no' is not a column of input dataframe"),
        ({"text": "int64"}, "Mismatched types"),
        (None, "not supported by dataframe_to_mds"),
    ],
)
def test_what_cannot_be_stored_is_a_value_error(
    columns: dict[str, str] | None, message: str
) -> None:
    frame: Any = Frame(text=T.StringType(), odd=T.NullType())
    with pytest.raises(ValueError, match=message):
        infer_dataframe_schema(frame, columns)
