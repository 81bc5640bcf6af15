"""Whole columns and single values of one encoding become the same bytes, or are both refused."""

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from mdstorm_backend.errors import EncodingError, EncodingRangeError
from mdstorm_backend.format.encodings.encoding import EncodedColumn
from mdstorm_backend.format.encodings.numbers import DTYPES
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.schema import Column
from mdstorm_backend.write.batch_shards import assemble_samples, encode_column

ARROW_NUMBERS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1) | st.integers(0, 300)),
    "float64": (pa.float64(), st.floats() | st.integers(-300, 300).map(float)),
    "float32": (pa.float32(), st.floats(width=32)),
}
#: Arrow makes its dictionary without entries where all texts are null.
_OF_TEXTS = pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))])


def encode(encoding: str, values: pa.Array) -> EncodedColumn:
    return encode_column(Column("v", encoding), values, ragged=True)


def stored(column: EncodedColumn, count: int) -> list[bytes]:
    """The bytes of each value."""
    samples = assemble_samples([column], count)
    start = 0 if column.fixed is not None else 4
    return [
        bytes(samples.data[a + start : b])
        for a, b in zip(samples.ends[:-1], samples.ends[1:], strict=True)
    ]


def one_by_one(encoding: str, values: list[Any]) -> list[bytes]:
    encode_value = parse_encoding(encoding).encoder()
    return [encode_value(value) for value in values]


def check_same(encoding: str, values: pa.Array, as_given: list[Any]) -> None:
    try:
        expected = one_by_one(encoding, as_given)
    except (OverflowError, ValueError):
        with pytest.raises(EncodingError):
            encode(encoding, values)
        return
    column = encode(encoding, values)
    assert column.encoding == encoding
    assert stored(column, len(values)) == expected


@given(
    st.sampled_from(["int", *DTYPES]),
    st.sampled_from(sorted(ARROW_NUMBERS)).flatmap(
        lambda name: st.tuples(st.just(name), st.lists(ARROW_NUMBERS[name][1], max_size=4))
    ),
)
def test_numbers(encoding: str, given_: tuple[str, list[Any]]) -> None:
    name, values = given_
    column = pa.array(values, ARROW_NUMBERS[name][0])
    check_same(encoding, column, column.to_pylist())


@pytest.mark.parametrize(("lowest", "highest"), [(-(2**63), 2**63 - 1), (0, 2**64 - 1)])
def test_integers_at_the_ends_of_their_range(lowest: int, highest: int) -> None:
    encoding = "int64" if lowest else "uint64"
    type_ = pa.int64() if lowest else pa.uint64()
    check_same(encoding, pa.array([lowest, highest], type_), [lowest, highest])
    above, below = float(highest + 1), float(np.nextafter(float(lowest), -np.inf))
    for value in (above, below):
        with pytest.raises(EncodingError):
            encode(encoding, pa.array([value]))
    check_same(encoding, pa.array([np.nextafter(above, 0)]), [np.nextafter(above, 0)])


@given(
    st.sampled_from(sorted(DTYPES)),
    st.sampled_from(["ndarray", "ndarray:{dtype}", "ndarray:{dtype}:{length}"]),
    st.lists(st.lists(st.integers(0, 100), min_size=1, max_size=4), max_size=4),
    st.integers(1, 3),
)
def test_arrays(dtype: str, form: str, rows: list[list[int]], length: int) -> None:
    encoding = form.format(dtype=dtype, length=length)
    arrow = pa.from_numpy_dtype(np.dtype(dtype))
    if dtype == "float16":
        rows = [[np.float16(value) for value in row] for row in rows]  # type: ignore[misc]
    check_same(encoding, pa.array(rows, pa.list_(arrow)), [np.array(row, dtype) for row in rows])


@given(array_shapes(min_dims=2, max_dims=3, max_side=3), st.integers(0, 3))
def test_arrays_of_several_dimensions_are_flat_lists_in_arrow(
    shape: tuple[int, ...], count: int
) -> None:
    size = int(np.prod(shape))
    rows = np.arange(count * size, dtype="int16").reshape(count, *shape)
    lists = pa.array([row.reshape(-1).tolist() for row in rows], pa.list_(pa.int16()))
    check_same(f"ndarray:int16:{','.join(map(str, shape))}", lists, list(rows))


@given(st.lists(st.floats(), max_size=4), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4))
def test_numbers_as_text(floats: list[float], integers: list[int]) -> None:
    check_same("str_float", pa.array(floats, pa.float64()), floats)
    check_same("str_int", pa.array(integers, pa.int64()), integers)


@given(st.lists(st.integers(-(10**10), 10**10).map(lambda n: Decimal(n) / 100), max_size=4))
def test_decimals_as_text_stand_for_the_same_number(values: list[Decimal]) -> None:
    texts = stored(encode("str_decimal", pa.array(values, pa.decimal128(20, 2))), len(values))
    assert [Decimal(text.decode()) for text in texts] == values


@given(st.lists(st.lists(st.integers() | st.none(), max_size=3), max_size=3), st.text(max_size=5))
def test_json_stands_for_the_same_value(rows: list[Any], text: str) -> None:
    rows = [[None if n is None else n % 1000 for n in row] for row in rows]
    found = stored(encode("json", pa.array(rows, pa.list_(pa.int32()))), len(rows))
    assert list(map(json.loads, found)) == rows
    values = [text.encode("utf-8", "ignore").decode()]
    found = stored(encode("json", pa.array(values, pa.string())), 1)
    assert list(map(json.loads, found)) == values


@pytest.mark.parametrize(
    ("encoding", "values", "type_"),
    [
        ("jpeg_array", [[b"a", b"bc"], []], pa.list_(pa.binary())),
        ("pkl", [{"a": 1}, {"a": 2}], pa.struct([("a", pa.int64())])),
        ("pkl", [1, 2], pa.int64()),
        *((text, [b"", b"\xff"], pa.binary()) for text in ("png", "pil", "str", "bytes", "pkl")),
        ("bytes", [b"ab"], pa.binary(2)),
        ("str", ["é"], pa.large_string()),
    ],
    ids=str,
)
def test_other_values(encoding: str, values: list[Any], type_: pa.DataType) -> None:
    check_same(encoding, pa.array(values, type_), values)


@pytest.mark.parametrize(
    ("encoding", "values", "placeholder"),
    [
        ("int", pa.array([None, 1.0]), bytes(8)),
        ("int32", pa.array([None, True]), bytes(4)),
        ("int64", pa.array([None, 1], pa.date32()), bytes(8)),
        ("float32", pa.array([None, 1]), np.float32(np.nan).tobytes()),
        ("str_int", pa.array([None, 1]), b"0"),
        ("str_float", pa.array([None, 1.5]), b"nan"),
        ("str_decimal", pa.array([None, Decimal(1)]), b"NaN"),
        ("json", pa.array([None, [1]]), b"null"),
        ("json", pa.array([None, "a"]), b"null"),
        ("json", pa.array([None, {"a": None}], _OF_TEXTS), b"null"),
        ("str", pa.array([None, "a"]), b""),
        ("png", pa.array([None, b"a"]), b""),
        ("jpeg_array", pa.array([None, [b"a"]]), bytes(4)),
        ("list[png]", pa.array([None, b"a"]), bytes(8)),
        ("ndarray", pa.array([None, [1]]), bytes([65, 4, 0])),
        ("ndarray:int64", pa.array([None, [1]]), bytes([4, 0])),
        ("ndarray:int64:1", pa.array([None, [1]]), bytes(8)),
        ("ndarray:float32:1", pa.array([None, [1]]), np.float32(np.nan).tobytes()),
    ],
    ids=str,
)
def test_a_null_has_a_placeholder_and_is_marked(
    encoding: str, values: pa.Array, placeholder: bytes
) -> None:
    column = encode(encoding, values)
    assert column.valid is not None
    assert column.valid.tolist() == [False, True]
    assert stored(column, 2)[0] == placeholder


def test_an_error_names_the_column_and_its_encoding() -> None:
    with pytest.raises(
        EncodingRangeError, match=r"column 'v' .* encoding 'uint8' .* 0 to 255"
    ) as e:
        encode("uint8", pa.array([256]))
    assert (e.value.column, e.value.encoding) == ("v", "uint8")


@pytest.mark.parametrize(
    ("encoding", "empty"), [("ndarray", b"\x08\4\0"), ("ndarray:int16", b"\4\0")]
)
def test_a_null_among_encoded_arrays_has_an_empty_one_in_its_place(
    encoding: str, empty: bytes
) -> None:
    array = parse_encoding(encoding).encoder()(np.ones((2, 1), np.int16))
    column = encode(encoding, pa.array([array, None], pa.binary()))
    assert stored(column, 2) == [array, empty]
    assert column.valid is not None
    assert column.valid.tolist() == [True, False]
