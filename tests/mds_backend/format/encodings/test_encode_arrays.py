from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdstorm_backend.format.encodings import Encoding, parse_encoding
from mdstorm_backend.format.encodings.encode_arrays import encode_arrays
from mdstorm_backend.format.encodings.encoded_column import EncodedColumn

INT16 = np.dtype("<i2")


def encode(
    rows: list[list[int | None] | None],
    dtype: np.dtype[Any] = INT16,
    *,
    ragged: bool = False,
) -> EncodedColumn:
    lists = pa.array(rows, pa.list_(pa.float64() if dtype.kind == "f" else pa.int16()))
    valid = np.asarray(lists.is_valid()) if lists.null_count else None
    return encode_arrays("a", encoding(dtype), lists, valid, ragged=ragged)


def encoding(dtype: np.dtype[Any]) -> Encoding:
    return parse_encoding(f"ndarray:{dtype.name}")


def joined(column: EncodedColumn) -> list[bytes]:
    return [b"".join(parts) for parts in zip(*(p.to_pylist() for p in column.parts), strict=True)]


def test_arrays_of_one_length_are_a_matrix() -> None:
    column = encode([[1, 2], [3, 4]])
    assert column.encoding == "ndarray:int16:2"
    assert column.fixed is not None
    assert column.fixed.tolist() == [[1, 2], [3, 4]]
    assert (column.valid, column.elements) == (None, None)


def test_a_null_array_takes_the_length_of_the_others() -> None:
    column = encode([None, [1, 2], None])
    assert column.encoding == "ndarray:int16:2"
    assert column.fixed is not None
    assert column.fixed.tolist() == [[0, 0], [1, 2], [0, 0]]
    floats = encode([None, [1, 2]], np.dtype("<f4"))
    assert floats.fixed is not None
    assert repr(floats.fixed.tolist()) == "[[nan, nan], [1.0, 2.0]]"


def test_null_elements_are_counted_beside_null_arrays() -> None:
    column = encode([[1, None], None, [None, 4]])
    assert column.fixed is not None
    assert column.fixed.tolist() == [[1, 0], [0, 0], [0, 4]]
    assert column.elements is not None
    # The elements of a null array are no null elements.
    assert column.elements.tolist() == [True, False, True, True, False, True]
    assert column.element_ends is not None
    assert column.element_ends.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    "rows", [[[1], [2, 3]], [[], []], [[], [1]], [None, None], [[], None]], ids=str
)
def test_other_arrays_carry_their_length(rows: list[Any]) -> None:
    column = encode(rows)
    assert column.encoding == "ndarray:int16"
    assert column.fixed is None
    assert len(column.parts) == 2


def test_arrays_of_one_length_carry_it_on_request() -> None:
    assert encode([[1, 2], [3, 4]], ragged=True).encoding == "ndarray:int16"


@pytest.mark.parametrize(
    ("length", "header"),
    [
        (0, b"\x04\x00"),
        (1, b"\x04\x01"),
        (255, b"\x04\xff"),
        (256, b"\x05\x00\x01"),
        (65_535, b"\x05\xff\xff"),
        (65_536, b"\x06\x00\x00\x01\x00"),
    ],
)
def test_the_header_has_the_smallest_width_that_holds_the_length(
    length: int, header: bytes
) -> None:
    (value,) = joined(encode([[7] * length], ragged=True))
    assert value == header + struct.pack("<h", 7) * length


rows = st.lists(
    st.none() | st.lists(st.none() | st.integers(-(1 << 15), (1 << 15) - 1), max_size=5), max_size=8
)


@settings(deadline=None)
@given(rows, st.integers(0, 8), st.booleans())
def test_nothing_but_the_rows_at_hand_is_encoded(rows: list[Any], start: int, ragged: bool) -> None:
    lists = pa.array(rows, pa.list_(pa.int16())).slice(start)
    valid = np.asarray(lists.is_valid()) if lists.null_count else None
    part, alone = (
        encode_arrays("a", encoding(INT16), lists, valid, ragged=ragged),
        encode(rows[start:], ragged=ragged),
    )
    assert part.encoding == alone.encoding
    assert joined(part) == joined(alone)
    for name in ("fixed", "elements", "element_ends"):
        np.testing.assert_array_equal(getattr(part, name), getattr(alone, name))


@settings(deadline=None)
@given(rows)
def test_element_bounds_follow_the_lengths(rows: list[Any]) -> None:
    column = encode(rows, ragged=True)
    assert column.element_ends is not None
    lengths = [0 if row is None else len(row) for row in rows]
    assert np.diff(column.element_ends).tolist() == lengths
    elements = [value is not None for row in rows if row for value in row]
    assert (column.elements is None) == all(elements)
    if column.elements is not None:
        assert column.elements.tolist() == elements
