from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.mds_backend.small_datasets import plan

from mdstorm_backend.format.encodings import parse_encoding
from mdstorm_backend.format.encodings.decode_arrays import array_decoder
from mdstorm_backend.format.encodings.encoding import EncodedColumn
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


def test_floats_are_cast_as_spark_casts_them() -> None:
    column = encode("double", [0.1, 1e300, -1e300, float("nan")], "float32")
    assert column.encoding == "float32"
    assert column.fixed is not None
    expected = [np.float32(0.1), np.inf, -np.inf, np.nan]
    np.testing.assert_array_equal(column.fixed, np.array(expected, np.float32))
    wider = encode("float", [0.1], "float64")
    assert wider.fixed is not None
    assert wider.fixed.tolist() == [float(np.float32(0.1))]


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
