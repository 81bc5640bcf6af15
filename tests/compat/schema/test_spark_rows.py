"""Rows for Spark: what is encoded, what is filled in, what is refused."""

from typing import Any

import numpy as np
import pytest

from mdstorm.codecs import NdarrayCodec, ScalarCodec
from mdstorm.errors import EncodingError, InvalidArgumentError
from mdstorm.unischema import Unischema, UnischemaField, dict_to_spark_row

types = pytest.importorskip("pyspark.sql.types")

SCHEMA = Unischema(
    "S",
    [
        UnischemaField("id", np.int64, (), ScalarCodec(types.LongType())),
        UnischemaField("name", np.str_, (), ScalarCodec(types.StringType()), True),
        UnischemaField("vec", np.float32, (2,), NdarrayCodec(), True),
        UnischemaField("plain", np.int32, ()),
        UnischemaField("list", np.int32, (None,), None, True),
    ],
)
ROW: dict[str, Any] = {
    "plain": np.int32(4),
    "list": [1, 2],
    "name": "x",
    "id": 3.9,
    "vec": np.ones(2, np.float32),
}


def test_values_are_encoded_in_the_order_of_the_schema() -> None:
    row = dict_to_spark_row(SCHEMA, ROW)
    assert list(row.__fields__) == ["id", "name", "vec", "plain", "list"]
    assert (row.id, row.name, row.plain, row.list) == (3, "x", 4, [1, 2])
    assert type(row.plain) is int
    assert type(row.vec) is bytearray
    assert NdarrayCodec().decode(SCHEMA.vec, row.vec).tolist() == [1, 1]


def test_binaries_of_numpy_become_bytes_which_spark_takes() -> None:
    for codec in (ScalarCodec(types.BinaryType()), None):
        schema = Unischema("S", [UnischemaField("data", np.bytes_, (), codec)])
        (data,) = dict_to_spark_row(schema, {"data": np.bytes_(b"a\0b")})
        assert (type(data), data) == (bytes, b"a\0b")


def test_nullable_fields_may_be_missing_or_none() -> None:
    row = dict_to_spark_row(SCHEMA, {"id": 1, "plain": 2, "name": None})
    assert tuple(row) == (1, None, None, 2, None)


def test_the_given_row_stays_as_it_is() -> None:
    given = {"id": 1, "plain": 2}
    dict_to_spark_row(SCHEMA, given)
    assert given == {"id": 1, "plain": 2}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**ROW, "id": None}, "Field 'id' is not \"nullable\""),
        ({**ROW, "vec": np.ones(3, np.float32)}, "Unexpected dimensions of vec feature"),
    ],
)
def test_rows_that_do_not_fit_are_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        dict_to_spark_row(SCHEMA, row)
    assert isinstance(caught.value, (InvalidArgumentError, EncodingError))
