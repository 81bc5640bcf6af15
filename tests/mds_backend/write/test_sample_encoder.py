import math
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.small_datasets import Huge
from tests.naming import value_id

from mdstorm_backend.errors import (
    ArgumentTypeError,
    EncodingError,
    EncodingRangeError,
    EncodingTypeError,
    MissingColumnError,
    MissingDependencyError,
)
from mdstorm_backend.format.encodings.numbers import DTYPES
from mdstorm_backend.write.sample_shards import SampleEncoder

MASKED = np.ma.array([1.0, 2.0], mask=[False, True])


def encode(columns: dict[str, str], **sample: Any) -> bytes:
    return SampleEncoder(columns).encode(sample)


def test_a_sample_is_sizes_and_then_values_in_the_order_of_the_names() -> None:
    columns = {"b": "str", "a": "int16", "B": "bytes", "é": "ndarray:uint8:2", "c": "ndarray:int8"}
    found = encode(columns, a=-2, b="xyz", B=b"1", c=np.int8([7]), é=np.uint8([8, 9]))
    assert (
        found
        == struct.pack("<III", 1, 3, 3) + b"1" + b"\xfe\xff" + b"xyz" + b"\4\1\7" + b"\x08\x09"
    )


def test_columns_of_one_number_each_are_packed() -> None:
    assert encode({"y": "float32", "x": "uint8"}, x=1, y=1.5) == b"\1" + struct.pack("<f", 1.5)


def test_further_entries_are_left_out() -> None:
    assert encode({"a": "int8"}, a=1, b=2) == b"\1"


@given(st.sampled_from(["int", *DTYPES]), st.integers() | st.floats(width=16))
def test_the_fast_way_and_the_careful_way_agree(name: str, value: Any) -> None:
    alone = SampleEncoder({"v": name})
    beside_a_text = SampleEncoder({"v": name, "w": "str"})
    try:
        expected = alone._careful[0](value)
    except (OverflowError, ValueError):
        with pytest.raises(EncodingError):
            alone.encode({"v": value})
        return
    assert alone.encode({"v": value}) == expected
    assert beside_a_text.encode({"v": value, "w": ""}) == bytes(4) + expected


def stored_number(name: str, value: Any) -> Any:
    """Encode and read back."""
    return np.frombuffer(encode({"v": name}, v=value), DTYPES[name])[0]


@given(
    st.sampled_from([name for name in DTYPES if "int" in name]),
    st.integers(-(2**65), 2**65) | st.integers(-300, 300),
)
def test_an_integer_is_stored_exactly_or_refused(name: str, value: int) -> None:
    limits = np.iinfo(DTYPES[name])
    if limits.min <= value <= limits.max:
        assert int(stored_number(name, value)) == value
    else:
        with pytest.raises(EncodingRangeError, match=f"from {limits.min} to {limits.max}"):
            encode({"v": name}, v=value)


@given(st.sampled_from(["float16", "float32", "float64"]), st.floats())
def test_a_float_is_rounded_to_the_nearest_or_refused(name: str, value: float) -> None:
    with np.errstate(over="ignore"):
        nearest = np.array(value, DTYPES[name])
    if np.isinf(nearest) and not math.isinf(value):
        with pytest.raises(EncodingRangeError, match=f"out of the range of {name}"):
            encode({"v": name}, v=value)
    else:
        assert stored_number(name, value).tobytes() == nearest.tobytes()


@pytest.mark.parametrize(
    "value",
    [7, 7.0, np.int64(7), np.uint8(7), np.float16(7), "7", True + 6, Decimal(7), Fraction(14, 2),
     np.array([7]), np.array(7.0), [7], np.datetime64(7, "D"), b"\7\0\0\0"],
    ids=value_id,
)  # fmt: skip
def test_everything_that_stands_for_one_number_is_taken(value: Any) -> None:
    assert stored_number("int32", value) == 7
    assert len(encode({"a": "int32", "b": "str"}, a=value, b="")) == 8


@pytest.mark.parametrize(
    "value",
    [3.9, np.float32(0.5), math.nan, math.inf, Decimal("0.1"), Decimal("NaN"), "3.9", "seven",
     np.datetime64("NaT"), None, [1, 2], [], {}, object(), 1j, np.array([1, 2])],
    ids=value_id,
)  # fmt: skip
def test_what_is_no_integer_is_refused_not_truncated(value: Any) -> None:
    message = r"not an integer|invalid literal|not a time|must be"
    with pytest.raises(EncodingError, match=message):
        encode({"v": "int32"}, v=value)


@pytest.mark.parametrize(
    ("encoding", "value", "kind", "builtins", "message"),
    [
        ("uint8", np.int64(300), EncodingRangeError, (OverflowError,), "300.*from 0 to 255"),
        ("int32", 3.9, EncodingError, (), "3.9: it is not an integer"),
        ("int32", None, EncodingTypeError, (TypeError,), "None: .* must be an integer"),
        ("str", 5, EncodingTypeError, (TypeError, AttributeError), "5: .* must be a str"),
        ("str", "\ud800", EncodingError, (), "surrogates"),
        ("float32", b"abc", EncodingError, (), "it is 3 bytes, and a value has 4"),
        ("ndarray:int8:2", np.zeros(3, "int8"), EncodingError, (), r"\(3,\) and must be \(2,\)"),
        ("pkl", lambda: None, EncodingError, (), "(?i)pickle"),
        ("json", {1j}, EncodingTypeError, (TypeError,), "serializable"),
        ("bytes", "x" * 500, EncodingTypeError, (AttributeError,), "'x{79}…: it is of type str"),
        ("ndarray", MASKED, EncodingError, (), "masked elements.*use .filled"),
        ("ndarray:float64:2", MASKED, EncodingError, (), "masked elements"),
        ("int", np.ma.masked, EncodingError, (), "masked elements"),
        ("json", MASKED, EncodingError, (), r"hold masked_array\(data=\[1.0, --\], mask="),
    ],
    ids=value_id,
)
@pytest.mark.parametrize("others", [{}, {"z": "str"}], ids=["alone", "beside others"])
def test_what_does_not_fit_is_an_error_that_names_column_encoding_and_value(
    encoding: str,
    value: Any,
    kind: type[EncodingError],
    builtins: tuple[type[Exception], ...],
    message: str,
    others: dict[str, str],
) -> None:
    with pytest.raises(kind, match=message) as caught:
        SampleEncoder({"a": encoding, **others}).encode({"a": value, "z": ""})
    for builtin in (ValueError, *builtins):
        assert isinstance(caught.value, builtin)
    assert (caught.value.column, caught.value.encoding) == ("a", encoding)
    assert f"column 'a' with encoding {encoding!r}" in str(caught.value)


@pytest.mark.parametrize("encoding", ["ndarray", "json"])
def test_a_masked_array_without_masked_elements_is_an_array(encoding: str) -> None:
    values = np.arange(3)
    assert encode({"a": encoding}, a=np.ma.array(values)) == encode({"a": encoding}, a=values)


@pytest.mark.parametrize("sample", [None, [1], "abc", 5, {1}])
@pytest.mark.parametrize("columns", [{"a": "int8"}, {"a": "int8", "b": "str"}])
def test_what_is_no_sample_is_refused(sample: Any, columns: dict[str, str]) -> None:
    with pytest.raises(ArgumentTypeError, match=r"a sample must be a dict .* found "):
        SampleEncoder(columns).encode(sample)


@pytest.mark.parametrize("columns", [{"a": "int8"}, {"a": "int8", "b": "str"}, {"a": "json"}])
def test_a_missing_column_is_named(columns: dict[str, str]) -> None:
    with pytest.raises(
        MissingColumnError, match=r"has no column 'a': it has \['b', 'x'\]"
    ) as caught:
        SampleEncoder(columns).encode({"x": 1, "b": ""})
    assert caught.value.column == "a"
    assert isinstance(caught.value, KeyError)


def test_a_missing_library_is_not_the_fault_of_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(MissingDependencyError):
        encode({"a": "png"}, a=object())


def test_a_value_of_4_gib_is_refused() -> None:
    with pytest.raises(EncodingRangeError, match=r"column 'b'.* 4 GiB or more"):
        encode({"a": "str", "b": "bytes"}, a="", b=Huge())
