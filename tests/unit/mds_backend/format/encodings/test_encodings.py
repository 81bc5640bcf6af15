"""Encoding names, and the stored form of numbers and strings."""

import math
import re
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings.encoding import Encode
from mdstorm_backend.format.encodings.numbers import DTYPES
from mdstorm_backend.format.encodings.registry import general_encoding, parse_encoding


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_stored_numbers_are_little_endian(dtype: str) -> None:
    stored = parse_encoding(dtype).dtype
    assert stored is not None
    assert stored == np.dtype(dtype).newbyteorder("<")
    assert parse_encoding(f"ndarray:{dtype}").dtype == stored


@given(st.lists(st.integers(1, 50), min_size=1, max_size=4), st.sampled_from(sorted(DTYPES)))
def test_shape_in_encoding_name_is_parsed(shape: list[int], dtype: str) -> None:
    encoding = parse_encoding(f"ndarray:{dtype}:{','.join(map(str, shape))}")
    assert encoding.shape == tuple(shape)
    assert encoding.size == math.prod(shape) * np.dtype(dtype).itemsize


@pytest.mark.parametrize("shape", ["0", "-1", "3,0", "x", "3,", "3:4", "1.5"])
def test_impossible_shape_raises_error(shape: str) -> None:
    with pytest.raises(UnsupportedEncodingError, match="has no valid shape") as caught:
        parse_encoding(f"ndarray:int32:{shape}")
    assert isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize(
    "text", ["x", "ndarray:bool", "ndarray::3", "str:x", "bytes:8", "list[str]", "bool", "webp"]
)
def test_unknown_encoding_is_opaque_and_using_it_raises_error_naming_it(text: str) -> None:
    encoding = parse_encoding(text)
    assert encoding.is_opaque
    with pytest.raises(UnsupportedEncodingError) as caught:
        encoding.check_decodable("picture")
    assert "'picture'" in str(caught.value)
    assert repr(text) in str(caught.value)
    assert "columns=[…]" in str(caught.value)


@pytest.mark.parametrize("shape", ["99999999999", "65536,65536", "1,2147483647"])
def test_array_too_large_for_any_shard_raises_error(shape: str) -> None:
    with pytest.raises(UnsupportedEncodingError, match="less than 4 GiB"):
        parse_encoding(f"ndarray:int32:{shape}")


@pytest.mark.parametrize(
    ("texts", "general"),
    [
        *((["str"], "str"), (["bytes", "str"], "bytes")),
        *((["int32", "int64"], "int64"), (["int8", "uint8"], "int16"), (["int", "int32"], "int64")),
        *((["float16", "float64"], "float64"), (["float32", "str_float"], "str_float")),
        (["int32", "str_int"], "str_int"),
        (["ndarray:int32:3", "ndarray:int32:4"], "ndarray:int32"),
        (["ndarray:int32", "ndarray:int32:2,2"], "ndarray:int32"),
        *((["ndarray:int32", other], "ndarray") for other in ("ndarray:int64", "ndarray")),
        *((["jpeg", "png"], "png"), (["list[jpeg]", "list[png]"], "list[png]")),
        (["jpeg_array", "jpegarray"], "jpeg_array"),
    ],
)
def test_common_encoding_can_store_the_values_of_all_encodings(
    texts: list[str], general: str
) -> None:
    assert general_encoding(texts) == general
    assert general_encoding(texts[::-1]) in (general, texts[-1])


@pytest.mark.parametrize(
    "texts",
    [
        *(["int32", "str"], ["int64", "uint64"], ["int64", "float64"], ["str_int", "uint64"]),
        *(["pil", "png"], ["json", "str"], ["ndarray:int32", "int32"], ["later", "str"]),
        ["jpeg_array", "list[jpeg]"],
    ],
)
def test_encodings_without_common_type_are_joined_into_an_opaque_encoding(texts: list[str]) -> None:
    encoding = parse_encoding(general_encoding(texts))
    assert encoding.is_opaque
    with pytest.raises(UnsupportedEncodingError, match=re.escape(f"as {texts[0]} and {texts[1]}")):
        encoding.check_decodable("x")


def encoder(encoding: str) -> Encode:
    return parse_encoding(encoding).encoder()


@pytest.mark.parametrize(
    ("encoding", "value", "stored"),
    [
        ("str", np.str_("é"), "é".encode()),
        ("str_int", True, b"1"),
        ("str_int", np.int64(5), b"5"),
        ("str_float", np.float64(1e300), b"1e+300"),
        ("str_float", float("nan"), b"nan"),
        ("str_decimal", Decimal("1E+5"), b"1E+5"),
        ("json", (1, float("nan")), b"[1, NaN]"),
        ("json", np.arange(4).reshape(2, 2), b"[[0, 1], [2, 3]]"),
        ("json", {1: "é"}, b'{"1": "\\u00e9"}'),
    ],
)
def test_strings_numbers_and_json_are_stored_as_text(
    encoding: str, value: Any, stored: bytes
) -> None:
    assert encoder(encoding)(value) == stored


@pytest.mark.parametrize(
    ("encoding", "values"),
    [
        ("str", [5, None, bytearray(b"a")]),
        ("str_int", [5.0, "5"]),
        ("str_float", [5, np.float32(5), Decimal(5)]),
        ("str_decimal", [5, 0.5]),
        ("json", [{1, 2}, [np.int64(1)], Decimal(1)]),
        ("bytes", [bytearray(b"a"), "a", None]),
        *(("pil", [None]), ("jpeg", ["a.jpg"]), ("png", [np.zeros((2, 2), "uint8")])),
        *(("list[pil]", [()]), ("list[jpeg]", [[b"file"]])),
        ("jpeg_array", ["text", ["text"], None]),
    ],
)
def test_values_of_the_wrong_type_raise_error(encoding: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(TypeError, match=r"expected .* found|not JSON serializable"):
            encoder(encoding)(value)


def test_arrow_values_are_stored_as_text_and_nulls_as_placeholders() -> None:
    for encoding, values, stored in (
        ("str", [date(2020, 1, 31), None], [b"2020-01-31", b""]),
        ("str", [True, False], [b"true", b"false"]),
        ("str_int", [True, None], [b"1", b"0"]),
        ("str_decimal", [7, None], [b"7", b"NaN"]),
    ):
        column = parse_encoding(encoding).encode_column("x", pa.array(values))
        assert column.parts[0].to_pylist() == stored
    nulls = parse_encoding("int8").encode_column("x", pa.nulls(2))
    np.testing.assert_array_equal(nulls.fixed, [0, 0])


def strings(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.string())


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=5))
def test_strings_of_64_bit_integers_become_an_arrow_array(numbers: list[int]) -> None:
    found = parse_encoding("str_int").parse_texts(strings([str(number) for number in numbers]))
    assert found.type == pa.int64()
    assert found.to_pylist() == numbers


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 10**40])
def test_strings_of_larger_integers_become_python_objects(number: int) -> None:
    found = parse_encoding("str_int").parse_texts(strings(["1", str(number)]))
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [1, number]


@pytest.mark.parametrize("text", ["+5", " 5 ", "1_0", "-0", "007", "٣"])
def test_strings_of_integers_are_parsed_as_in_python(text: str) -> None:
    assert parse_encoding("str_int").parse_texts(strings([text, "1"])).to_pylist() == [int(text), 1]


@pytest.mark.parametrize("text", ["", "x", "0x1F", "0X1f", "1.0", "True", "1 2", "9" * 5000])
def test_string_that_is_not_an_integer_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the message is Python's
        parse_encoding("str_int").parse_texts(strings(["1", text]))


@pytest.mark.parametrize(
    "text", [" 1.5 ", "1_0.5", "+.5", "5.", "Infinity", "-inf", "1e400", "-nan"]
)
def test_strings_of_floats_are_parsed_as_in_python(text: str) -> None:
    found = parse_encoding("str_float").parse_texts(strings([text, "1"]))
    assert repr(found.to_pylist()) == repr([float(text), 1.0])


@pytest.mark.parametrize("text", ["", "x", "0x1p3", "1,5"])
def test_string_that_is_not_a_float_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="could not convert"):
        parse_encoding("str_float").parse_texts(strings(["1", text]))
