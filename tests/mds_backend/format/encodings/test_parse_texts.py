from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdstorm_backend.format.encodings.texts import parse_floats, parse_integers

few = settings(deadline=None, max_examples=60)


def strings(texts: list[str]) -> pa.Array:
    return pa.array(texts, pa.string())


@few
@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=5))
def test_integers_of_64_bits_are_an_arrow_array(numbers: list[int]) -> None:
    found = parse_integers(strings([str(number) for number in numbers]))
    assert found.type == pa.int64()
    assert found.to_pylist() == numbers


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1, 10**40])
def test_larger_integers_are_python_objects(number: int) -> None:
    found = parse_integers(strings(["1", str(number)]))
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [1, number]


@pytest.mark.parametrize("text", ["+5", " 5 ", "1_0", "-0", "007", "٣"])
def test_integers_may_be_written_as_python_reads_them(text: str) -> None:
    assert parse_integers(strings([text, "1"])).to_pylist() == [int(text), 1]


@pytest.mark.parametrize("text", ["", "x", "0x1F", "0X1f", "1.0", "True", "1 2", "9" * 5000])
def test_what_python_does_not_read_as_an_integer_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # in Python's words
        parse_integers(strings(["1", text]))


@few
@given(st.lists(st.floats(), max_size=5))
def test_floats_are_read_back_to_the_bit(numbers: list[float]) -> None:
    found = parse_floats(strings([str(number) for number in numbers]))
    assert found.type == pa.float64()
    assert list(map(repr, found.to_pylist())) == list(map(repr, numbers))


@pytest.mark.parametrize("text", [" 1.5 ", "1_0.5", "+.5", "5.", "Infinity", "-inf", "1e400"])
def test_floats_may_be_written_as_python_reads_them(text: str) -> None:
    assert parse_floats(strings([text, "1"])).to_pylist() == [float(text), 1.0]


def test_nan_is_read() -> None:
    assert all(math.isnan(x) for x in parse_floats(strings(["nan", "NaN", "-nan"])).to_pylist())


@pytest.mark.parametrize("text", ["", "x", "0x1p3", "1,5"])
def test_what_python_does_not_read_as_a_float_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="could not convert"):
        parse_floats(strings(["1", text]))


def test_no_texts_are_no_numbers() -> None:
    assert parse_integers(strings([])).to_pylist() == []
    assert parse_floats(strings([])).to_pylist() == []
