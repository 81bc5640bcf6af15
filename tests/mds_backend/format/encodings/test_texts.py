from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.format.encodings.encoding import Encode
from mdstorm_backend.format.encodings.registry import parse_encoding


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
def test_stored_texts(encoding: str, value: Any, stored: bytes) -> None:
    assert encoder(encoding)(value) == stored


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("str", 5),
        ("str", None),
        ("str", bytearray(b"a")),
        ("str_int", 5.0),
        ("str_int", "5"),
        ("str_float", 5),
        ("str_float", np.float32(5)),
        ("str_float", Decimal(5)),
        ("str_decimal", 5),
        ("str_decimal", 0.5),
        ("json", {1, 2}),
        ("json", [np.int64(1)]),
        ("json", Decimal(1)),
    ],
    ids=str,
)
def test_values_of_another_type_are_refused(encoding: str, value: Any) -> None:
    with pytest.raises(TypeError):
        encoder(encoding)(value)


def strings(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.string())


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=5))
def test_integers_of_64_bits_are_an_arrow_array(numbers: list[int]) -> None:
    found = parse_encoding("str_int").parse_texts(strings([str(number) for number in numbers]))
    assert found.type == pa.int64()
    assert found.to_pylist() == numbers


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 10**40])
def test_larger_integers_are_python_objects(number: int) -> None:
    found = parse_encoding("str_int").parse_texts(strings(["1", str(number)]))
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [1, number]


@pytest.mark.parametrize("text", ["+5", " 5 ", "1_0", "-0", "007", "٣"])
def test_integers_may_be_written_as_python_reads_them(text: str) -> None:
    assert parse_encoding("str_int").parse_texts(strings([text, "1"])).to_pylist() == [int(text), 1]


@pytest.mark.parametrize("text", ["", "x", "0x1F", "0X1f", "1.0", "True", "1 2", "9" * 5000])
def test_what_python_does_not_read_as_an_integer_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # in Python's words
        parse_encoding("str_int").parse_texts(strings(["1", text]))


@given(st.lists(st.floats(), max_size=5))
def test_floats_are_read_back_to_the_bit(numbers: list[float]) -> None:
    found = parse_encoding("str_float").parse_texts(strings([str(number) for number in numbers]))
    assert found.type == pa.float64()
    assert list(map(repr, found.to_pylist())) == list(map(repr, numbers))


@pytest.mark.parametrize(
    "text", [" 1.5 ", "1_0.5", "+.5", "5.", "Infinity", "-inf", "1e400", "-nan"]
)
def test_floats_may_be_written_as_python_reads_them(text: str) -> None:
    found = parse_encoding("str_float").parse_texts(strings([text, "1"]))
    assert repr(found.to_pylist()) == repr([float(text), 1.0])


@given(st.floats(allow_nan=False))
def test_a_float_reads_back_exactly(number: float) -> None:
    encoding = parse_encoding("str_float")
    assert encoding.decode(encoding.encode(number)) == number


@pytest.mark.parametrize("text", ["", "x", "0x1p3", "1,5"])
def test_what_python_does_not_read_as_a_float_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="could not convert"):
        parse_encoding("str_float").parse_texts(strings(["1", text]))
