import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naming import value_id

from mdstorm_backend.format.encodings.dtypes import DTYPES
from mdstorm_backend.format.encodings.encode_numbers import encode_number

INTS = [name for name in DTYPES if "int" in name]
FLOATS = ["float16", "float32", "float64"]


def encode(name: str, value: Any) -> Any:
    """Encode and read back."""
    dtype = DTYPES[name]
    return np.frombuffer(encode_number(dtype, value), dtype)[0]


@given(st.sampled_from(INTS), st.integers(-(2**65), 2**65) | st.integers(-300, 300))
def test_an_integer_is_stored_exactly_or_refused(name: str, value: int) -> None:
    limits = np.iinfo(DTYPES[name])
    if limits.min <= value <= limits.max:
        assert int(encode(name, value)) == value
    else:
        with pytest.raises(OverflowError, match=f"from {limits.min} to {limits.max}"):
            encode(name, value)


@given(st.sampled_from(FLOATS), st.floats())
def test_a_float_is_rounded_to_the_nearest_or_refused(name: str, value: float) -> None:
    with np.errstate(over="ignore"):
        nearest = np.array(value, DTYPES[name])
    if np.isinf(nearest) and not math.isinf(value):
        with pytest.raises(OverflowError, match=f"out of the range of {name}"):
            encode(name, value)
    else:
        assert encode(name, value).tobytes() == nearest.tobytes()


@pytest.mark.parametrize(
    "value",
    [7, 7.0, np.int64(7), np.uint8(7), np.float16(7), "7", True + 6, Decimal(7), Fraction(14, 2),
     np.array([7]), np.array(7.0), [7], np.datetime64(7, "D")],
    ids=value_id,
)  # fmt: skip
def test_everything_that_stands_for_one_number_is_taken(value: Any) -> None:
    assert encode("uint8", value) == 7


@pytest.mark.parametrize(
    "value",
    [3.9, np.float32(0.5), math.nan, math.inf, Decimal("0.1"), Decimal("NaN"), "3.9", "seven",
     np.datetime64("NaT")],
    ids=value_id,
)  # fmt: skip
def test_what_is_no_integer_is_refused_not_truncated(value: Any) -> None:
    with pytest.raises(ValueError, match=r"not an integer|invalid literal|not a time"):
        encode("int32", value)


@pytest.mark.parametrize(
    "value", [None, [1, 2], [], {}, object(), 1j, np.array([1, 2])], ids=value_id
)
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="must be"):
        encode("int32", value)
