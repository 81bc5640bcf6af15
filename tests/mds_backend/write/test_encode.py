from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.mds_backend.small_datasets import array_of, plan, struct_of

from mdstorm_backend.format.encodings import parse_encoding
from mdstorm_backend.format.encodings.decode_arrays import array_decoder
from mdstorm_backend.format.encodings.encoded_column import EncodedColumn
from mdstorm_backend.format.schema import Column
from mdstorm_backend.format.values.spark_types import SparkType, arrow_type
from mdstorm_backend.write.batch_shards import encode_column


def encode(
    spark_type: SparkType, values: list[Any], dtype: str | None = None, *, ragged: bool = False
) -> EncodedColumn:
    column = plan({"a": spark_type}, dtype)["a"]
    return encode_column(column, pa.array(values, arrow_type(spark_type)), ragged=ragged)


def texts(column: EncodedColumn) -> list[bytes]:
    (part,) = column.parts
    return part.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("spark_type", "value", "stored"),
    [
        ("boolean", True, np.uint8(1)),
        ("byte", -5, np.int8(-5)),
        ("short", -5, np.int16(-5)),
        ("integer", -5, np.int32(-5)),
        ("long", -5, np.int64(-5)),
        ("float", 0.5, np.float32(0.5)),
        ("double", 0.1, np.float64(0.1)),
        ("date", date(1970, 1, 11), np.int32(10)),
        ("date", date(1969, 12, 31), np.int32(-1)),
        ("timestamp", datetime(1970, 1, 1, 0, 0, 1, 5, timezone.utc), np.int64(1_000_005)),
        ("timestamp_ntz", datetime(1970, 1, 1, 0, 0, 1), np.int64(1_000_000)),
    ],
)
def test_numbers_are_stored_in_their_own_width(
    spark_type: str, value: Any, stored: np.generic
) -> None:
    column = encode(spark_type, [value])
    assert column.fixed is not None
    assert column.fixed.dtype == stored.dtype == parse_encoding(column.encoding).dtype
    assert column.fixed.tolist() == [stored]
    assert column.valid is None


@pytest.mark.parametrize(
    ("spark_type", "placeholder"),
    [("boolean", 0), ("integer", 0), ("date", 0), ("timestamp", 0)],
)
def test_a_null_number_has_a_zero_in_its_place(spark_type: str, placeholder: int) -> None:
    column = encode(spark_type, [None, None])
    assert column.fixed is not None
    assert column.fixed.tolist() == [placeholder] * 2
    assert column.valid is not None
    assert column.valid.tolist() == [False, False]


def test_a_null_float_has_nan_in_its_place() -> None:
    column = encode("double", [1.0, None])
    assert column.fixed is not None
    assert repr(column.fixed.tolist()) == "[1.0, nan]"
    assert column.valid is not None
    assert column.valid.tolist() == [True, False]


def test_floats_are_cast_as_spark_casts_them() -> None:
    column = encode("double", [0.1, 1e300, -1e300, float("nan")], "float32")
    assert column.encoding == "float32"
    assert column.fixed is not None
    expected = [np.float32(0.1), np.inf, -np.inf, np.nan]
    np.testing.assert_array_equal(column.fixed, np.array(expected, np.float32))
    wider = encode("float", [0.1], "float64")
    assert wider.fixed is not None
    assert wider.fixed.tolist() == [float(np.float32(0.1))]


@pytest.mark.parametrize(
    ("spark_type", "value", "stored", "placeholder"),
    [
        ("string", "é\0", "é\0".encode(), b""),
        ("binary", b"\x00\xff", b"\x00\xff", b""),
        ("decimal(10,2)", Decimal("-1.50"), b"-1.50", b"NaN"),
        (array_of("string"), ["a", None], b'["a",null]', b"null"),
        (struct_of(x="long"), {"x": 1}, b'{"x":1}', b"null"),
    ],
    ids=str,
)
def test_texts_are_stored_as_bytes_and_nulls_as_placeholders(
    spark_type: SparkType, value: Any, stored: bytes, placeholder: bytes
) -> None:
    column = encode(spark_type, [value, None])
    assert column.fixed is None
    assert texts(column) == [stored, placeholder]
    assert column.valid is not None
    assert column.valid.tolist() == [True, False]


def test_a_slice_of_an_array_is_encoded_alone() -> None:
    for spark_type, values in [
        ("long", [1, None, 3, 4]),
        ("string", ["a", None, "c", "d"]),
        (array_of("long"), [[1], None, [3], [4]]),
    ]:
        whole = pa.array(values, arrow_type(spark_type))
        column = plan({"a": spark_type})["a"]
        part = encode_column(column, whole.slice(1, 2), ragged=False)
        alone = encode(spark_type, values[1:3])
        assert (part.encoding, part.parts) == (alone.encoding, alone.parts)
        np.testing.assert_array_equal(part.fixed, alone.fixed)
        np.testing.assert_array_equal(part.valid, alone.valid)


def test_vectors_are_arrays() -> None:
    vector = {"type": "udt", "pyClass": "pyspark.ml.linalg.VectorUDT"}
    struct = pa.struct(
        [
            ("type", pa.int8()),
            ("size", pa.int32()),
            ("indices", pa.list_(pa.int32())),
            ("values", pa.list_(pa.float64())),
        ]
    )
    rows = [
        {"type": 1, "size": None, "indices": None, "values": [1.0, 2.0]},
        {"type": 0, "size": 2, "indices": [1], "values": [3.0]},
    ]
    column = encode_column(
        plan({"a": vector}, "float32")["a"], pa.array(rows, struct), ragged=False
    )
    assert column.encoding == "ndarray:float32:2"
    assert column.fixed is not None
    assert column.fixed.tolist() == [[1.0, 2.0], [0.0, 3.0]]


@pytest.mark.parametrize("encoding", ["ndarray", "ndarray:int16"])
def test_a_null_among_encoded_arrays_has_an_empty_one_in_its_place(encoding: str) -> None:
    stored = parse_encoding(encoding).encoder()(np.ones((2, 1), np.int16))
    values = pa.array([stored, None], pa.binary())
    column = encode_column(Column("a", encoding), values, ragged=False)
    first, second = texts(column)
    assert first == stored
    assert column.valid is not None
    assert column.valid.tolist() == [True, False]
    decode = array_decoder(memoryview(second), parse_encoding(encoding).dtype)
    assert decode(0, len(second)).shape == (0,)
