"""The stored form of arrays, read one at a time and as whole columns."""

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedEncodingError
from mdstorm_backend.format.encodings.arrays import array_decoder, decode_arrays
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.values.arrow_types import vectors_to_lists
from mdstorm_backend.format.values.batch import gather_binary

INT16 = np.dtype("<i2")


def spread(values: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lay out values with gaps between them; return the bytes, starts and lengths."""
    lengths = np.array([len(value) for value in values], np.int64)
    starts = np.cumsum(lengths + 2) - lengths
    return np.frombuffer(b"".join(b"--" + value for value in values), np.uint8), starts, lengths


def encoded(array: np.ndarray, code: int | None = None) -> bytes:
    """Encode an array by hand, following the format description."""
    start = b"" if code is None else bytes([code])
    shape = struct.pack(f"<{array.ndim}B", *array.shape)
    little = array.astype(array.dtype.newbyteorder("<"))
    return start + bytes([array.ndim << 2]) + shape + little.tobytes()


HUGE = struct.pack("<Q", 1 << 62)

#: Invalid values for int16 arrays.
DAMAGED = {
    "nothing": b"",
    "no length": b"\x04",
    "cut length": b"\x05\x01",
    "header beyond the value": b"\x07\x01\x00",
    "half an element": b"\x04\x01\x00\x00\x00",
    "too few elements": b"\x04\x02\x00\x00",
    "too many elements": b"\x04\x01\x00\x00\x00\x00",
    "more than memory": b"\x07" + HUGE,
    "more than memory, 2 dimensions": b"\x0b" + HUGE + HUGE,
    "nothing times more than memory": b"\x0b" + bytes(8) + b"\xff" * 8,
    "a scalar of no bytes": b"\x00",
    "nothing times more than a number": b"\x7f" + b"\xff" * 8 * 30 + bytes(8),
    "63 dimensions": b"\xfc" + b"\x01" * 63 + b"\x00",
}


@pytest.mark.parametrize("value", DAMAGED.values(), ids=DAMAGED)
def test_header_that_contradicts_its_value_raises_error(value: bytes) -> None:
    for values in ([value], [value, encoded(np.array([1], np.int16))]):
        with pytest.raises(ValueError):  # noqa: PT011  # some messages are NumPy's
            decode_arrays(*spread(values), INT16)
        with pytest.raises(ValueError):  # noqa: PT011
            decode_arrays(*spread([b"\x11" + v for v in values]), None)


@pytest.mark.parametrize("code", [0, 7, 10, 67, 255])
def test_unknown_dtype_code_raises_error(code: int) -> None:
    with pytest.raises(ValueError, match=f"unknown dtype code {code}"):
        decode_arrays(*spread([encoded(np.array([1], np.int16), code)]), None)


def test_empty_arrays_keep_their_shapes() -> None:
    for shape in ((0, 3), (2, 0), (2, 0, 3)):
        arrays = [np.ones(one, np.int16) for one in (shape, (2,) * len(shape))]
        found = decode_arrays(*spread([encoded(one) for one in arrays]), INT16)
        values = found if isinstance(found, np.ndarray) else found.to_pylist()
        assert [np.shape(value) for value in values] == [one.shape for one in arrays]


@pytest.mark.parametrize(
    ("shapes", "are_lists"),
    [
        ([(8, 0)], True),
        ([(9, 0)], False),
        ([(2, 4, 0)], True),
        ([(3, 3, 0)], False),
        ([(9, 0, 0)], False),
        ([(8, 0), (1, 0)], False),
        ([(9, 1), (1, 0)], False),
        ([(9, 1)], True),
        ([(0,)] * 9, True),
    ],
    ids=str,
)
def test_more_empty_lists_than_elements_are_read_as_arrays(
    shapes: list[tuple[int, ...]], are_lists: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mdstorm_backend.format.values.nested_lists.MOST_EMPTY_LISTS", 8)
    arrays = [np.ones(shape, np.int16) for shape in shapes]
    found = decode_arrays(*spread([encoded(array) for array in arrays]), INT16)
    assert isinstance(found, pa.ListArray) == are_lists
    values = found.to_pylist() if are_lists else found
    for value, array in zip(values, arrays, strict=True):
        np.testing.assert_array_equal(value, array.tolist() if are_lists else array)


def test_scalar_of_another_writer_is_read() -> None:
    found = decode_arrays(*spread([b"\x00\x05\x00", b"\x00\x06\x00"]), INT16)
    assert [(value.shape, value.item()) for value in found] == [((), 5), ((), 6)]


def test_array_with_more_dimensions_than_numpy_allows_raises_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mdstorm_backend.format.encodings.arrays.MAX_DIMENSIONS", 3)
    values = [encoded(np.ones([1] * dimensions, np.int16)) for dimensions in (3, 4)]
    assert decode_arrays(*spread(values[:1]), INT16).to_pylist() == [[[[1]]]]
    assert array_decoder(memoryview(values[0]), INT16)(0, len(values[0])).shape == (1, 1, 1)
    with pytest.raises(UnsupportedEncodingError, match=r"4 dimensions.*Install NumPy 2"):
        decode_arrays(*spread(values), INT16)


def test_values_in_a_file_over_2_gib_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mdstorm_backend.format.values.batch.INT32_MAX", 3)
    for type_ in (pa.binary(), pa.string()):
        found = gather_binary(*spread([b"ab", b"", b"c"]), type_)
        assert found.type == type_
        assert found.cast(pa.binary()).to_pylist() == [b"ab", b"", b"c"]


def test_column_over_2_gib_raises_error() -> None:
    data = np.zeros(3 << 30, np.uint8)  # uses no memory, because the array is never accessed
    starts, lengths = np.arange(3) << 30, np.full(3, 1 << 30)
    with pytest.raises(
        InvalidArgumentError, match=r"more than 2 GiB .* smaller batch_size .*drop_partitions"
    ):
        gather_binary(data, starts, lengths, pa.binary())


def encode(text: str, value: Any) -> bytes:
    return parse_encoding(text).encode(value)


@pytest.mark.parametrize("text", ["ndarray", "ndarray:int32", "ndarray:int32:2,3"])
@pytest.mark.parametrize("change", [lambda a: a.astype(">i4"), lambda a: a.T.copy().T])
def test_stored_form_does_not_depend_on_byte_order_or_strides(text: str, change: Any) -> None:
    value = np.arange(6, dtype="<i4").reshape(2, 3)
    assert encode(text, change(value)) == encode(text, value)


@pytest.mark.parametrize(("length", "width"), [(255, 0), (256, 1), (65_535, 1), (65_536, 2)])
def test_dimensions_are_stored_in_the_smallest_integer_type(length: int, width: int) -> None:
    assert encode("ndarray:int8", np.zeros((1, length), "int8"))[0] == 2 << 2 | width


def test_empty_array_is_stored_with_its_shape() -> None:
    assert encode("ndarray:int32", np.zeros((0, 3), "int32")) == bytes([2 << 2, 0, 3])


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ("ndarray", np.zeros(2, bool), "dtype bool is not one of float16, .*uint8"),
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
def test_arrays_that_do_not_fit_the_encoding_raise_error(
    text: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        encode(text, value)


@pytest.mark.parametrize("value", [[1, 2], (1,), None, 5, 0.5, "text"], ids=repr)
def test_non_array_values_raise_error(value: Any) -> None:
    with pytest.raises(TypeError, match="expected a NumPy array"):
        encode("ndarray", value)


#: The Arrow type of a column of vectors, as Spark passes it on.
INDICES, VALUES = pa.list_(pa.int32()), pa.list_(pa.float64())
VECTOR = pa.struct(
    [("type", pa.int8()), ("size", pa.int32()), ("indices", INDICES), ("values", VALUES)]
)


def dense(values: list[float]) -> tuple[dict[str, Any], list[float]]:
    """Return a dense vector in Spark's representation and as a list."""
    return {"type": 1, "size": None, "indices": None, "values": values}, values


def sparse(size: int, values: dict[int, float]) -> tuple[dict[str, Any], list[float]]:
    indices = sorted(values)
    vector = {"size": size, "indices": indices, "values": [values[i] for i in indices]}
    return {"type": 0, **vector}, [values.get(i, 0.0) for i in range(size)]


NUMBERS = st.floats(allow_nan=False)
VECTORS = st.one_of(
    st.just((None, None)),
    st.lists(NUMBERS, max_size=5).map(dense),
    st.integers(1, 6).flatmap(
        lambda n: st.builds(sparse, st.just(n), st.dictionaries(st.integers(0, n - 1), NUMBERS))
    ),
    st.just(sparse(0, {})),
)


@settings(deadline=None)
@given(st.lists(VECTORS, max_size=8), st.integers(0, 8))
def test_dense_sparse_and_null_vectors_become_lists(rows: list[Any], start: int) -> None:
    vectors = pa.array([vector for vector, _ in rows], VECTOR)
    for part, wanted in ((vectors, rows), (vectors.slice(start), rows[start:])):
        assert vectors_to_lists(part).to_pylist() == [values for _, values in wanted]
