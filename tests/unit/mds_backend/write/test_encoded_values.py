"""Whole columns and single values either encode to the same bytes or both raise errors."""

import math
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from tests.kit.naming import value_id
from tests.kit.small_datasets import Huge

from mdstorm_backend import errors
from mdstorm_backend.format.encodings.encoding import EncodedColumn
from mdstorm_backend.format.encodings.numbers import DTYPES
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.schema import Column
from mdstorm_backend.write.batch_shards import assemble_samples, encode_column
from mdstorm_backend.write.sample_shards import SampleEncoder

ARROW_NUMBERS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "bool": (pa.bool_(), st.booleans()),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1) | st.integers(0, 300)),
    "float64": (pa.float64(), st.floats() | st.integers(-300, 300).map(float)),
    "float32": (pa.float32(), st.floats(width=32)),
}
#: Structs of dictionary-encoded strings; if all strings are null, the dictionary has no entries.
_OF_TEXTS = pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))])


def encode(encoding: str, values: pa.Array) -> EncodedColumn:
    return encode_column(Column("v", encoding), values, ragged=True)


def stored(column: EncodedColumn, count: int) -> list[bytes]:
    """Return the bytes of each value."""
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
        with pytest.raises(errors.EncodingError):
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
def test_numbers_in_a_column_are_encoded_like_single_numbers(
    encoding: str, given_: tuple[str, list[Any]]
) -> None:
    name, values = given_
    column = pa.array(values, ARROW_NUMBERS[name][0])
    assume(encoding != "int" or pa.types.is_integer(column.type))
    check_same(encoding, column, column.to_pylist())


@pytest.mark.parametrize(("lowest", "highest"), [(-(2**63), 2**63 - 1), (0, 2**64 - 1)])
def test_smallest_and_largest_integers_in_a_column_are_encoded_like_single_ones(
    lowest: int, highest: int
) -> None:
    encoding = "int64" if lowest else "uint64"
    type_ = pa.int64() if lowest else pa.uint64()
    check_same(encoding, pa.array([lowest, highest], type_), [lowest, highest])
    above, below = float(highest + 1), float(np.nextafter(float(lowest), -np.inf))
    for value in (above, below):
        with pytest.raises(errors.EncodingError):
            encode(encoding, pa.array([value]))
    check_same(encoding, pa.array([np.nextafter(above, 0)]), [np.nextafter(above, 0)])


@given(
    st.sampled_from(sorted(DTYPES)),
    st.sampled_from(["ndarray", "ndarray:{dtype}", "ndarray:{dtype}:{length}"]),
    st.lists(st.lists(st.integers(0, 100), min_size=1, max_size=4), max_size=4),
    st.integers(1, 3),
)
def test_arrays_in_a_column_are_encoded_like_single_arrays(
    dtype: str, form: str, rows: list[list[int]], length: int
) -> None:
    encoding = form.format(dtype=dtype, length=length)
    arrow = pa.from_numpy_dtype(np.dtype(dtype))
    if dtype == "float16":
        rows = [[np.float16(value) for value in row] for row in rows]  # type: ignore[misc]
    check_same(encoding, pa.array(rows, pa.list_(arrow)), [np.array(row, dtype) for row in rows])


@given(array_shapes(min_dims=2, max_dims=3, max_side=3), st.integers(0, 3))
def test_multidimensional_arrays_are_encoded_from_flat_arrow_lists(
    shape: tuple[int, ...], count: int
) -> None:
    size = int(np.prod(shape))
    rows = np.arange(count * size, dtype="int16").reshape(count, *shape)
    lists = pa.array([row.reshape(-1).tolist() for row in rows], pa.list_(pa.int16()))
    check_same(f"ndarray:int16:{','.join(map(str, shape))}", lists, list(rows))


@given(st.lists(st.floats(), max_size=4), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4))
def test_numbers_in_a_text_column_are_encoded_like_single_numbers(
    floats: list[float], integers: list[int]
) -> None:
    check_same("str_float", pa.array(floats, pa.float64()), floats)
    check_same("str_int", pa.array(integers, pa.int64()), integers)


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
def test_texts_bytes_and_objects_in_a_column_are_encoded_like_single_values(
    encoding: str, values: list[Any], type_: pa.DataType
) -> None:
    check_same(encoding, pa.array(values, type_), values)


@pytest.mark.parametrize(
    ("encoding", "values", "placeholder"),
    [
        ("int", pa.array([None, 1.0]), bytes(8)), ("int32", pa.array([None, True]), bytes(4)),
        ("int64", pa.array([None, 1], pa.date32()), bytes(8)),
        ("float32", pa.array([None, 1]), np.float32(np.nan).tobytes()),
        ("str_int", pa.array([None, 1]), b"0"), ("str_float", pa.array([None, 1.5]), b"nan"),
        ("str_decimal", pa.array([None, Decimal(1)]), b"NaN"),
        ("json", pa.array([None, [1]]), b"null"), ("json", pa.array([None, "a"]), b"null"),
        ("json", pa.array([None, {"a": None}], _OF_TEXTS), b"null"),
        ("str", pa.array([None, "a"]), b""), ("png", pa.array([None, b"a"]), b""),
        ("jpeg_array", pa.array([None, [b"a"]]), bytes(4)),
        ("list[png]", pa.array([None, b"a"]), bytes(8)),
        ("ndarray", pa.array([None, [1]]), bytes([65, 4, 0])),
        ("ndarray:int64", pa.array([None, [1]]), bytes([4, 0])),
        ("ndarray:int64:1", pa.array([None, [1]]), bytes(8)),
        ("ndarray:float32:1", pa.array([None, [1]]), np.float32(np.nan).tobytes()),
    ],
    ids=str,
)  # fmt: skip
def test_null_is_stored_as_placeholder_and_marked_in_the_bitmap(
    encoding: str, values: pa.Array, placeholder: bytes
) -> None:
    column = encode(encoding, values)
    assert column.valid is not None
    assert column.valid.tolist() == [False, True]
    assert stored(column, 2)[0] == placeholder


def test_error_names_the_column_and_its_encoding() -> None:
    message = r"column 'v' .* encoding 'uint8' .* 0 to 255"
    with pytest.raises(errors.EncodingRangeError, match=message) as e:
        encode("uint8", pa.array([256]))
    assert (e.value.column, e.value.encoding) == ("v", "uint8")


@pytest.mark.parametrize(
    ("encoding", "empty"), [("ndarray", b"\x08\4\0"), ("ndarray:int16", b"\4\0")]
)
def test_null_among_encoded_arrays_is_stored_as_an_empty_array(encoding: str, empty: bytes) -> None:
    array = parse_encoding(encoding).encoder()(np.ones((2, 1), np.int16))
    column = encode(encoding, pa.array([array, None], pa.binary()))
    assert stored(column, 2) == [array, empty]
    assert column.valid is not None
    assert column.valid.tolist() == [True, False]


MASKED = np.ma.array([1.0, 2.0], mask=[False, True])


def encode_one(columns: dict[str, str], **sample: Any) -> bytes:
    return SampleEncoder(columns).encode(sample)


def test_encoded_sample_has_sizes_then_values_in_name_order() -> None:
    columns = {"b": "str", "a": "int16", "B": "bytes", "é": "ndarray:uint8:2", "c": "ndarray:int8"}
    found = encode_one(columns, a=-2, b="xyz", B=b"1", c=np.int8([7]), é=np.uint8([8, 9]))
    assert found == struct.pack("<III", 1, 3, 3) + b"1\xfe\xffxyz\4\1\7\x08\x09"
    numbers = encode_one({"y": "float32", "x": "uint8"}, x=1, y=1.5, further="entry")
    assert numbers == b"\1" + struct.pack("<f", 1.5)


@given(st.sampled_from(["int", *DTYPES]), st.integers() | st.floats(width=16))
def test_number_in_a_sample_is_encoded_like_a_single_number(name: str, value: Any) -> None:
    alone = SampleEncoder({"v": name})
    beside_a_text = SampleEncoder({"v": name, "w": "str"})
    try:
        (expected,) = one_by_one(name, [value])
    except (OverflowError, TypeError, ValueError):
        with pytest.raises(errors.EncodingError):
            alone.encode({"v": value})
        return
    assert alone.encode({"v": value}) == expected
    assert beside_a_text.encode({"v": value, "w": ""}) == bytes(4) + expected


def stored_number(name: str, value: Any) -> Any:
    """Encode a number and read it back."""
    return np.frombuffer(encode_one({"v": name}, v=value), DTYPES[name])[0]


@given(
    st.sampled_from([name for name in DTYPES if "int" in name]),
    st.integers(-(2**65), 2**65) | st.integers(-300, 300),
)
def test_integer_is_stored_exactly_or_raises_error(name: str, value: int) -> None:
    limits = np.iinfo(DTYPES[name])
    if limits.min <= value <= limits.max:
        assert int(stored_number(name, value)) == value
    else:
        with pytest.raises(errors.EncodingRangeError, match=f"from {limits.min} to {limits.max}"):
            encode_one({"v": name}, v=value)


@given(st.sampled_from(["float16", "float32", "float64"]), st.floats())
def test_float_is_rounded_to_the_nearest_or_raises_error(name: str, value: float) -> None:
    with np.errstate(over="ignore"):
        nearest = np.array(value, DTYPES[name])
    if np.isinf(nearest) and not math.isinf(value):
        with pytest.raises(errors.EncodingRangeError, match=f"out of the range of {name}"):
            encode_one({"v": name}, v=value)
    else:
        assert stored_number(name, value).tobytes() == nearest.tobytes()


@pytest.mark.parametrize(
    "value",
    [7, 7.0, np.int64(7), np.uint8(7), np.float16(7), True + 6, Decimal(7), Fraction(14, 2),
     np.array([7]), np.array(7.0), [7], np.datetime64(7, "D")],
    ids=value_id,
)  # fmt: skip
def test_values_equal_to_an_integer_are_stored_regardless_of_type(value: Any) -> None:
    assert stored_number("int32", value) == 7
    assert len(encode_one({"a": "int32", "b": "str"}, a=value, b="")) == 8


@pytest.mark.parametrize(
    "value",
    [3.9, np.float32(0.5), math.nan, math.inf, Decimal("0.1"), Decimal("NaN"),
     np.datetime64("NaT", "us"), None, [1, 2], [], {}, object(), 1j, np.array([1, 2])],
    ids=value_id,
)  # fmt: skip
def test_non_integers_in_integer_columns_raise_error(value: Any) -> None:
    message = r"not an integer|invalid literal|not a time|no nulls|expected (an integer|one number)"
    with pytest.raises(errors.EncodingError, match=message):
        encode_one({"v": "int32"}, v=value)


NUMBERS = ["int", *DTYPES, "str_int", "str_float", "str_decimal"]


@pytest.mark.parametrize("encoding", NUMBERS)
@pytest.mark.parametrize("others", [{}, {"z": "str"}], ids=["alone", "beside others"])
def test_text_and_bytes_in_columns_of_numbers_raise_error(
    encoding: str, others: dict[str, str]
) -> None:
    texts = ["5", " 7 ", "1_000", "nan", b"5", bytes(8), bytearray(b"5"), memoryview(b"5")]
    texts += [np.str_("5"), np.bytes_(b"5"), ["5"]]
    if not encoding.startswith("float"):  # NumPy 1 converts an array of one text to a float
        texts += [np.array(["5"]), np.array(["5"], object)]
    texts += [bytes(DTYPES[encoding].itemsize)] if encoding in DTYPES else []
    for text in texts:
        with pytest.raises(errors.EncodingTypeError, match=r"expected an? .* found"):
            SampleEncoder({"a": encoding, **others}).encode({"a": text, "z": ""})
    for type_ in (pa.string(), pa.binary()):
        assert not parse_encoding(encoding).can_store(type_)


@pytest.mark.parametrize(
    "value", [7.0, np.float32(7), Decimal(7), np.datetime64(7, "D"), [7], None]
)
def test_int_refuses_values_that_are_not_integers(value: Any) -> None:
    with pytest.raises(errors.EncodingTypeError, match=r"expected an integer|have no nulls"):
        encode_one({"v": "int"}, v=value)


@pytest.mark.parametrize("value", [7, np.int8(7), np.uint64(7), np.array(7)])
def test_int_takes_integers_of_python_and_numpy(value: Any) -> None:
    assert np.frombuffer(encode_one({"v": "int"}, v=value), np.int64) == 7
    assert len(encode_one({"a": "int", "b": "str"}, a=value, b="")) == 12


@pytest.mark.parametrize(
    ("encoding", "value", "kind", "builtins", "message"),
    [
        ("uint8", np.int64(300), errors.EncodingRangeError, (OverflowError,), "300.*from 0 to 255"),
        ("int32", 3.9, errors.EncodingError, (), "3.9: the value is not an integer"),
        ("int32", None, errors.EncodingTypeError, (TypeError,), "None: samples of MDS have"),
        ("str", 5, errors.EncodingTypeError, (TypeError, AttributeError), "5: expected a str"),
        ("str", "\ud800", errors.EncodingError, (), "surrogates"),
        (
            "ndarray:int8:2",
            np.zeros(3, "int8"),
            errors.EncodingError,
            (),
            r"\(3,\) and must be \(2,\)",
        ),
        ("pkl", lambda: None, errors.EncodingError, (), "(?i)pickle"),
        ("json", {1j}, errors.EncodingTypeError, (TypeError,), "serializable"),
        (
            "bytes",
            "x" * 500,
            errors.EncodingTypeError,
            (AttributeError,),
            "'x{79}…: expected bytes, found str",
        ),
        ("bytes", "x" * 78, errors.EncodingTypeError, (AttributeError,), "'x{78}': expected bytes"),
        ("ndarray", MASKED, errors.EncodingError, (), "masked elements.*use .filled"),
        ("ndarray:float64:2", MASKED, errors.EncodingError, (), "masked elements"),
        ("int", np.ma.masked, errors.EncodingError, (), "masked elements"),
        ("json", MASKED, errors.EncodingError, (), r"hold masked_array\(data=\[1.0, --\], mask="),
    ],
    ids=value_id,
)
@pytest.mark.parametrize("others", [{}, {"z": "str"}], ids=["alone", "beside others"])
def test_invalid_value_raises_error_naming_column_and_value(
    encoding: str,
    value: Any,
    kind: type[errors.EncodingError],
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
def test_masked_array_without_masked_elements_is_stored(encoding: str) -> None:
    values = np.arange(3)
    assert encode_one({"a": encoding}, a=np.ma.array(values)) == encode_one(
        {"a": encoding}, a=values
    )


@pytest.mark.parametrize("sample", [None, [1], "abc", 5, {1}])
@pytest.mark.parametrize("columns", [{"a": "int8"}, {"a": "int8", "b": "str"}])
def test_samples_that_are_not_mappings_raise_error(sample: Any, columns: dict[str, str]) -> None:
    with pytest.raises(errors.ArgumentTypeError, match=r"a sample must be a dict .* found "):
        SampleEncoder(columns).encode(sample)


@pytest.mark.parametrize("columns", [{"a": "int8"}, {"a": "int8", "b": "str"}, {"a": "json"}])
def test_missing_column_raises_error_naming_the_column(columns: dict[str, str]) -> None:
    message = r"has no column 'a': it has \['b', 'x'\]"
    with pytest.raises(errors.MissingColumnError, match=message) as caught:
        SampleEncoder(columns).encode({"x": 1, "b": ""})
    assert caught.value.column == "a"
    assert isinstance(caught.value, KeyError)


def test_missing_library_while_encoding_raises_dependency_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(errors.MissingDependencyError):
        encode_one({"a": "png"}, a=object())


def test_value_of_4_gib_raises_error() -> None:
    with pytest.raises(errors.EncodingRangeError, match=r"column 'b'.* 4 GiB or more"):
        encode_one({"a": "str", "b": "bytes"}, a="", b=Huge())
