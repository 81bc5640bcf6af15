import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings.numbers import DTYPES
from mdstorm_backend.format.encodings.registry import general_encoding, parse_encoding


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_stored_numbers_are_little_endian(dtype: str) -> None:
    stored = parse_encoding(dtype).dtype
    assert stored is not None
    assert (
        np.array([1], stored).tobytes()
        == np.array([1], dtype).astype(f"<{stored.str[1:]}").tobytes()
    )
    assert stored.byteorder in "<=|"
    assert parse_encoding(f"ndarray:{dtype}").dtype == stored


@given(st.lists(st.integers(1, 50), min_size=1, max_size=4), st.sampled_from(sorted(DTYPES)))
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
    "text", ["x", "ndarray:bool", "ndarray::3", "str:x", "bytes:8", "list[str]", "bool", "webp"]
)
def test_other_encodings_are_opaque_and_named_when_wanted(text: str) -> None:
    encoding = parse_encoding(text)
    assert encoding.is_opaque
    with pytest.raises(UnsupportedEncodingError) as caught:
        encoding.check_decodable("picture")
    assert "'picture'" in str(caught.value)
    assert repr(text) in str(caught.value)
    assert "columns=[…]" in str(caught.value)


@pytest.mark.parametrize("shape", ["99999999999", "65536,65536", "1,2147483647"])
def test_an_array_that_no_shard_can_hold_is_refused(shape: str) -> None:
    with pytest.raises(UnsupportedEncodingError, match="less than 4 GiB"):
        parse_encoding(f"ndarray:int32:{shape}")


@pytest.mark.parametrize(
    ("texts", "general"),
    [
        (["str"], "str"),
        (["int32", "int64"], "int64"),
        (["int8", "uint8"], "int16"),
        (["int", "int32"], "int64"),
        (["float16", "float64"], "float64"),
        (["ndarray:int32:3", "ndarray:int32:4"], "ndarray:int32"),
        (["ndarray:int32", "ndarray:int32:2,2"], "ndarray:int32"),
        (["ndarray:int32", "ndarray:int64"], "ndarray"),
        (["ndarray", "ndarray:int32:3"], "ndarray"),
        (["bytes", "str"], "bytes"),
        (["jpeg", "png"], "png"),
        (["list[jpeg]", "list[png]"], "list[png]"),
        (["int32", "str_int"], "str_int"),
        (["float32", "str_float"], "str_float"),
        (["jpeg_array", "jpegarray"], "jpeg_array"),
    ],
)
def test_the_general_encoding_holds_the_values_of_all(texts: list[str], general: str) -> None:
    assert general_encoding(texts) == general
    assert general_encoding(texts[::-1]) in (general, texts[-1])


@pytest.mark.parametrize(
    "texts",
    [
        ["int32", "str"],
        ["int64", "uint64"],
        ["int64", "float64"],
        ["str_int", "uint64"],
        ["pil", "png"],
        ["json", "str"],
        ["ndarray:int32", "int32"],
        ["jpeg_array", "list[jpeg]"],
        ["later", "str"],
    ],
)
def test_encodings_with_nothing_in_common_are_opaque(texts: list[str]) -> None:
    encoding = parse_encoding(general_encoding(texts))
    assert encoding.is_opaque
    with pytest.raises(UnsupportedEncodingError, match=re.escape(f"as {texts[0]} and {texts[1]}")):
        encoding.check_decodable("x")


@pytest.mark.parametrize(("kind", "number"), [("float32", 1e39), ("float16", -70000.0)])
def test_a_float_out_of_range_does_not_become_infinite(kind: str, number: float) -> None:
    encoding = parse_encoding(kind)
    with pytest.raises(OverflowError, match=f"out of the range of {kind}"):
        encoding.encode(number)
    assert encoding.encode(math.copysign(math.inf, number))
