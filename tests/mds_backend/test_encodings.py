from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.encodings import (
    ARRAY_DTYPES,
    SCALAR_DTYPES,
    Encoding,
    array_encoding,
    parse_encoding,
)
from mdstorm_backend.errors import UnsupportedEncodingError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("int", 8),
        ("uint8", 1),
        ("uint16", 2),
        ("uint32", 4),
        ("uint64", 8),
        ("int8", 1),
        ("int16", 2),
        ("int32", 4),
        ("int64", 8),
        ("float16", 2),
        ("float32", 4),
        ("float64", 8),
        ("ndarray:int32:3", 12),
        ("ndarray:float64:2,3", 48),
        ("ndarray:int32: 3 , 4", 48),
    ],
)
def test_fixed_size_encodings_say_how_many_bytes_a_value_takes(text: str, size: int) -> None:
    assert parse_encoding(text).size == size


@pytest.mark.parametrize("text", ["str", "bytes", "json", "str_decimal", "ndarray:float32"])
def test_variable_size_encodings_have_no_size(text: str) -> None:
    encoding = parse_encoding(text)
    assert encoding.size is None
    assert not encoding.is_opaque


@pytest.mark.parametrize("dtype", sorted(ARRAY_DTYPES))
def test_stored_numbers_are_little_endian(dtype: str) -> None:
    stored = parse_encoding(dtype).dtype
    assert stored is not None
    assert (
        np.array([1], stored).tobytes()
        == np.array([1], dtype).astype(f"<{stored.str[1:]}").tobytes()
    )
    assert stored.byteorder in "<=|"
    assert parse_encoding(f"ndarray:{dtype}").dtype == stored


def test_the_array_dtypes_are_the_eleven_of_the_format() -> None:
    assert sorted(ARRAY_DTYPES) == sorted(
        [
            "uint8",
            "int8",
            "uint16",
            "int16",
            "uint32",
            "int32",
            "uint64",
            "int64",
            "float16",
            "float32",
            "float64",
        ]
    )
    assert {*SCALAR_DTYPES} == {*ARRAY_DTYPES, "int"}


@given(st.lists(st.integers(1, 50), min_size=1, max_size=4), st.sampled_from(sorted(ARRAY_DTYPES)))
def test_a_shape_is_read_as_it_is_written(shape: list[int], dtype: str) -> None:
    encoding = parse_encoding(f"ndarray:{dtype}:{','.join(map(str, shape))}")
    assert encoding.shape == tuple(shape)
    assert encoding.size == math.prod(shape) * np.dtype(dtype).itemsize


@pytest.mark.parametrize("shape", ["0", "-1", "3,0", "x", "3,", "3:4", "1.5"])
def test_an_impossible_shape_is_refused(shape: str) -> None:
    with pytest.raises(UnsupportedEncodingError, match="has no valid shape") as caught:
        parse_encoding(f"ndarray:int32:{shape}")
    assert isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize(
    "text", ["pkl", "jpeg", "png", "list[pil]", "ndarray", "ndarray:bool", "x"]
)
def test_other_encodings_are_opaque_and_named_when_wanted(text: str) -> None:
    encoding = parse_encoding(text)
    assert encoding.is_opaque
    with pytest.raises(UnsupportedEncodingError) as caught:
        encoding.check_decodable("picture")
    assert "'picture'" in str(caught.value)
    assert repr(text) in str(caught.value)
    assert "columns=[…]" in str(caught.value)


def test_a_decodable_encoding_passes_the_check() -> None:
    parse_encoding("int32").check_decodable("number")


@pytest.mark.parametrize(
    ("length", "text"),
    [(3, "ndarray:float32:3"), (None, "ndarray:float32"), (0, "ndarray:float32")],
)
def test_arrays_of_one_length_are_stored_without_it(length: int | None, text: str) -> None:
    assert array_encoding(np.dtype("<f4"), length) == text
    assert parse_encoding(text) == Encoding(
        text, "ndarray", np.dtype("<f4"), (length,) if length else None
    )
