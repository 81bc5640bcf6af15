from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.format.encodings import parse_encoding
from mdstorm_backend.format.encodings.encoding import Encode


def encoder(encoding: str) -> Encode:
    return parse_encoding(encoding).encoder()


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_is_stored_as_utf_8(value: str) -> None:
    assert encoder("str")(value) == value.encode("utf-8")


@given(st.floats())
def test_a_float_reads_back(value: float) -> None:
    assert repr(float(encoder("str_float")(value))) == repr(value)


@given(st.integers())
def test_an_integer_of_any_size_reads_back(value: int) -> None:
    assert int(encoder("str_int")(value)) == value


@given(st.decimals())
def test_a_decimal_reads_back(value: Decimal) -> None:
    assert repr(Decimal(encoder("str_decimal")(value).decode())) == repr(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_json_reads_back(value: Any) -> None:
    stored = encoder("json")(value)
    assert stored.isascii()
    assert json.loads(stored) == value


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


@pytest.mark.parametrize("encoding", ["json", "str", "str_decimal", "str_float", "str_int"])
def test_bytes_are_stored_as_they_are(encoding: str) -> None:
    assert encoder(encoding)(b"\xff not checked") == b"\xff not checked"


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


def test_half_a_character_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        encoder("str")("\ud800")
