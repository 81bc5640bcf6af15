from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdstorm_backend.format.encodings.encode_arrays import array_encoder
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.values.arrow_types import vectors_to_lists


def encode(text: str, value: Any) -> bytes:
    encoding = parse_encoding(text)
    return array_encoder(encoding.dtype, encoding.shape)(value)


@pytest.mark.parametrize("text", ["ndarray", "ndarray:int32", "ndarray:int32:2,3"])
@pytest.mark.parametrize("change", [lambda a: a.astype(">i4"), lambda a: a.T.copy().T])
def test_byte_order_and_strides_do_not_matter(text: str, change: Any) -> None:
    value = np.arange(6, dtype="<i4").reshape(2, 3)
    assert encode(text, change(value)) == encode(text, value)


@pytest.mark.parametrize(("length", "width"), [(255, 0), (256, 1), (65_535, 1), (65_536, 2)])
def test_dimensions_take_as_few_bytes_as_hold_the_largest(length: int, width: int) -> None:
    assert encode("ndarray:int8", np.zeros((1, length), "int8"))[0] == 2 << 2 | width


def test_an_empty_array_is_stored_with_its_shape() -> None:
    assert encode("ndarray:int32", np.zeros((0, 3), "int32")) == bytes([2 << 2, 0, 3])


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ("ndarray", np.zeros(2, bool), "dtype bool is none of float16, .*uint8"),
        ("ndarray", np.zeros(2, complex), "complex128"),
        ("ndarray", np.array(["a"]), "dtype str"),
        ("ndarray", np.array([None]), "dtype object"),
        ("ndarray", np.array(["2020"], "M8[s]"), "datetime64"),
        ("ndarray", np.array(5), "scalar"),
        ("ndarray", np.int32(5), "scalar"),
        ("ndarray:int32", np.zeros(2, "int64"), r"int64 and must be int32: use .astype\('int32'\)"),
        ("ndarray:int32:3", np.zeros(2, "int32"), r"shape is \(2,\) and must be \(3,\)"),
        ("ndarray:int32:2,3", np.zeros((3, 2), "int32"), r"\(3, 2\) and must be \(2, 3\)"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_has_no_form_in_the_encoding_is_refused(text: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(text, value)


@pytest.mark.parametrize("value", [[1, 2], (1,), None, 5, 0.5, "text"], ids=repr)
def test_only_arrays_are_taken(value: Any) -> None:
    with pytest.raises(TypeError, match="must be a NumPy array"):
        encode("ndarray", value)


#: As Spark hands a vector to Arrow.
VECTOR = pa.struct(
    [
        ("type", pa.int8()),
        ("size", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
    ]
)


def dense(*values: float) -> dict[str, Any]:
    return {"type": 1, "size": None, "indices": None, "values": list(values)}


def sparse(size: int, values: dict[int, float]) -> dict[str, Any]:
    return {
        "type": 0,
        "size": size,
        "indices": sorted(values),
        "values": [values[i] for i in sorted(values)],
    }


def convert(vectors: list[dict[str, Any] | None]) -> list[list[float] | None]:
    return vectors_to_lists(pa.array(vectors, VECTOR)).to_pylist()  # type: ignore[no-any-return]


def expected(vector: dict[str, Any] | None) -> list[float] | None:
    if vector is None or vector["type"] == 1:
        return None if vector is None else vector["values"]
    given_ = dict(zip(vector["indices"], vector["values"], strict=True))
    return [given_.get(i, 0.0) for i in range(vector["size"])]


numbers = st.floats(allow_nan=False)
vectors = st.one_of(
    st.none(),
    st.lists(numbers, max_size=5).map(lambda values: dense(*values)),
    st.integers(0, 6).flatmap(
        lambda n: st.dictionaries(st.integers(0, max(n - 1, 0)), numbers, max_size=n).map(
            lambda values: sparse(n, values)
        )
    ),
)


@settings(deadline=None)
@given(st.lists(vectors, max_size=8), st.integers(0, 8))
def test_dense_sparse_and_null_vectors_mix(rows: list[dict[str, Any] | None], start: int) -> None:
    assert convert(rows) == [expected(row) for row in rows]
    part = pa.array(rows, VECTOR).slice(start)
    assert vectors_to_lists(part).to_pylist() == [expected(row) for row in rows[start:]]
