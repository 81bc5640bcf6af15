"""Columns are decoded as a whole: arrays as NumPy loads them, scalars to their field's type."""

import gc
import io
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mdstorm._array_files import decode_npy, inflate_npz
from mdstorm._datasets import decoded_field
from mdstorm.unischema import UnischemaField
from mdstorm_backend.format.type_plan import plan_batch

DTYPES = ["int8", "uint16", "int64", "float16", "float32", ">f8", "bool", "<U3", "S2", "M8[s]"]


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(array: Any, save: Any = np.savez_compressed) -> bytes:
    file = io.BytesIO()
    save(file, arr=array)
    return file.getvalue()


def column(arrays: list[Any], encode: Any = npy) -> pa.Array:
    return pa.array([None if a is None else encode(a) for a in arrays], pa.binary())


def rows(found: Any) -> list[Any]:
    """Return the decoded values, one array or None per row."""
    if isinstance(found, np.ndarray):
        return list(found)
    dtype = found.type.value_type.to_pandas_dtype()
    return [None if row is None else np.array(row, dtype) for row in found.to_pylist()]


def assert_equal(found: Any, arrays: list[Any], dtype: Any) -> None:
    assert len(found) == len(arrays)
    for one, other in zip(rows(found), arrays, strict=True):
        if other is None:
            assert one is None
        else:
            np.testing.assert_array_equal(one, other)
            assert one.shape == other.shape
            if dtype.kind in "biuf":
                assert one.dtype == dtype.newbyteorder("=")


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[Any], Any, tuple[int | None, ...]]:
    """Draw arrays of one dtype with free and fixed dimensions, some null, some in Fortran order."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = tuple(draw(st.lists(st.none() | st.integers(0, 4), max_size=3)))
    rows: list[Any] = []
    for _ in range(draw(st.integers(0, 6))):
        size = tuple(draw(st.integers(0, 4)) if n is None else n for n in shape)
        array = draw(
            hnp.arrays(dtype, size, elements={"allow_nan": False} if dtype.kind == "f" else None)
        )
        if draw(st.booleans()):
            array = np.array(array, order="F")
        rows.append(array if draw(st.integers(0, 5)) else None)
    return rows, dtype, shape


@settings(deadline=None, max_examples=150)
@given(columns(), st.booleans(), st.sampled_from([npy, npz]))
def test_decoded_arrays_match_numpy_load(
    drawn: tuple[list[Any], Any, tuple[int | None, ...]], has_nulls: bool, encode: Any
) -> None:
    arrays, dtype, shape = drawn
    values = column(arrays, encode)
    if encode is npz:
        values = inflate_npz(values)
    found = decode_npy(values, dtype.newbyteorder("="), shape, has_nulls=has_nulls)
    assert_equal(found, arrays, dtype)
    sliced = decode_npy(values[1:3], dtype.newbyteorder("="), shape)
    assert_equal(sliced, arrays[1:3], dtype)


def test_arrays_of_the_same_shape_are_stacked() -> None:
    arrays = [np.full((2, 3), i, np.float32) for i in range(5)]
    found = decode_npy(column(arrays), np.dtype("f4"), (2, 3))
    assert isinstance(found, np.ndarray)
    assert found.shape == (5, 2, 3)
    assert found.flags.writeable
    assert found.flags.c_contiguous


@pytest.mark.parametrize("shape", [(), (1,)])
def test_times_in_different_units_keep_their_values(shape: tuple[int, ...]) -> None:
    # The first date is out of range for nanoseconds.
    arrays = [np.full(shape, "3000-01-01", "M8[s]"), np.full(shape, "2020-01-01", "M8[ns]")]
    found = decode_npy(column(arrays), np.dtype("M8"), shape)
    assert [array.dtype for array in found] == [array.dtype for array in arrays]
    assert_equal(found, arrays, np.dtype("M8"))


@pytest.mark.parametrize("stored", ["int8", "uint32", "int64"])
def test_one_dimensional_arrays_of_variable_length_become_lists(stored: str) -> None:
    for sizes in ([3, 0], [2, 2], []):
        arrays = [np.arange(size, dtype=stored) for size in sizes]
        found = decode_npy(column(arrays), np.dtype("i8"), (None,))
        assert found.type == pa.list_(pa.int64())
        assert found.to_pylist() == [array.tolist() for array in arrays]
    found = decode_npy(column([np.arange(2)]), np.dtype("i8"), (2,), has_nulls=True)
    assert found.to_pylist() == [[0, 1]]


def test_headers_of_any_length_and_version_are_read() -> None:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.arange(3), version=(2, 0))
    long_header = npy(np.arange(3)).replace(b"'shape': (3,), }", b"'shape': ( 3,)} ")
    values = pa.array([file.getvalue(), npy(np.arange(3)), long_header], pa.binary())
    found = decode_npy(values, np.dtype("i8"), (3,))
    assert np.array_equal(found, [[0, 1, 2]] * 3)


def test_header_is_parsed_again_if_another_thread_disturbs_the_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, failures = np.lib.format.read_array_header_1_0, iter(range(3))

    def disturbed(file: Any) -> Any:
        if next(failures, None) is not None:
            raise SystemError("AST constructor recursion depth mismatch")
        return read(file)

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", disturbed)
    array = np.arange(4321)  # no other test has this header, which would be remembered
    assert np.array_equal(decode_npy(pa.array([npy(array)]), array.dtype, array.shape), [array])


@pytest.mark.long
def test_threads_that_parse_headers_together_decode_their_values() -> None:
    """In Python 3.11, threads disturb each other if collecting garbage switches between them."""

    def decode(size: int) -> bool:
        array = np.zeros(size, np.int32)
        return np.array_equal(decode_npy(pa.array([npy(array)]), array.dtype, (size,)), [array])

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()

    def run_python(*_: object) -> None:
        [None for _ in range(20)]

    gc.callbacks.append(run_python)
    sys.setswitchinterval(1e-6)
    gc.set_threshold(1)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(decode, range(1000, 2000)))
    finally:
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
        gc.callbacks.remove(run_python)


GOOD = npy(np.arange(3, dtype=np.int32))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "too short"),
        (b"garbage garbage", "not an array that numpy.save wrote"),
        (GOOD[:-1], "differs from the size in its header"),
        (GOOD[:50], "ends before the end of its array"),
        (GOOD[:6] + b"\x09" + GOOD[7:], "unknown version"),
        (npy(np.arange(3.0)), "an array of float64, but the schema declares int32"),
        (npy(np.zeros((3, 1), np.int32)), r"shape \(3, 1\), but the schema declares \(3,\)"),
        (GOOD.replace(b"<i4", b"|O'"), "header cannot be parsed"),
    ],
)
def test_invalid_npy_values_raise_error(value: bytes, message: str) -> None:
    for values in ([value], [value, GOOD], [GOOD, None, value]):
        with pytest.raises(ValueError, match=message):
            decode_npy(pa.array(values, pa.binary()), np.dtype("i4"), (3,))


def test_uncompressed_archives_are_read() -> None:
    array = np.arange(5)
    assert inflate_npz(pa.array([npz(array, np.savez), None])).to_pylist() == [npy(array), None]


@pytest.mark.parametrize("value", [b"", b"PK\x03\x04", GOOD, npz(np.arange(3))[:60]])
def test_invalid_npz_archives_raise_error(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a compressed array"):
        inflate_npz(pa.array([value]))


def test_damaged_npz_archive_raises_error() -> None:
    value = bytearray(npz(np.arange(300)))
    value[120] ^= 0xFF
    with pytest.raises(ValueError, match="not a compressed array"):
        inflate_npz(pa.array([bytes(value)]))


def decoded_scalars(values: Any, dtype: Any) -> Any:
    """Return stored values as a field of a NumPy type."""
    stored = plan_batch(pa.schema([("x", pa.array(values).type)]), None)["x"]
    decode = decoded_field(UnischemaField("x", dtype, ()), stored).decode
    assert decode is not None
    return decode(values)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (np.array([1, 255], np.int16), np.uint8, np.array([1, 255], np.uint8)),
        (np.array([1.9, -1.9]), np.int32, np.array([1, -1], np.int32)),
        (np.array([1, 2], np.int64), np.float32, np.array([1, 2], np.float32)),
        (np.array([0, 3], np.int8), np.bool_, np.array([False, True])),
        (np.array([], np.int64), np.int8, np.array([], np.int8)),
        (pa.array([1, None], pa.int64()), np.uint8, pa.array([1, None], pa.uint8())),
        (pa.array([1.9, None]), np.int8, pa.array([1, None], pa.int8())),
        (pa.array([2**60 + 1, None]), np.float64, pa.array([2.0**60, None])),
        (pa.array(["4", None]), np.int64, pa.array([4, None])),
        (pa.array([b"a", None]), np.str_, pa.array(["a", None])),
        (np.array([5, 6]), np.str_, pa.array(["5", "6"])),
    ],
)
def test_scalars_are_cast_to_the_type_of_their_field(
    values: Any, dtype: Any, expected: Any
) -> None:
    found = decoded_scalars(values, dtype)
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    else:
        assert found.equals(expected)


@pytest.mark.parametrize(
    ("values", "dtype", "message"),
    [
        (np.array([1.0, np.nan]), np.int32, "nan, which is not an integer"),
        (np.array([np.inf]), np.int64, "inf, which is not an integer"),
        (np.array([-np.inf]), np.int64, "-inf, which is not an integer"),
        (pa.array([float("nan"), None]), np.int32, "nan, which is not an integer"),
        (pa.array(["x"]), np.int64, "Failed to parse string: 'x'"),
        (pa.array([b"\xff"]), np.str_, "Invalid UTF8"),
    ],
)
def test_values_that_cannot_be_cast_raise_error(values: Any, dtype: Any, message: str) -> None:
    with pytest.raises((ValueError, pa.ArrowException), match=message):
        decoded_scalars(values, dtype)


KINDS = ["int64", "uint64", "float64", "int64 with nulls", "float64 with nulls"]
#: Each end of an integer dtype, the value beyond it, and a kind of column that holds both.
ENDS = [
    (dtype, kind, end, end + step)
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    for end, step in ((int(np.iinfo(dtype).min), -1), (int(np.iinfo(dtype).max), 1))
    for kind in KINDS
    if end > 0 or kind != "uint64"
]


def column_of(kind: str, values: list[int]) -> Any:
    dtype = kind.split()[0]
    if "nulls" in kind:
        return pa.array([*values, None], pa.from_numpy_dtype(dtype))
    return np.array(values, dtype)


@pytest.mark.parametrize(("dtype", "kind", "end", "beyond"), ENDS)
def test_ends_of_integer_types_are_cast_and_values_beyond_raise_error(
    dtype: str, kind: str, end: int, beyond: int
) -> None:
    found = decoded_scalars(column_of(kind, [0, end]), dtype)
    assert found.tolist()[:2] == [0, end]
    with pytest.raises(
        (ValueError, pa.ArrowException),
        match=rf"{beyond}.* (do not fit into {dtype}|not in range)",
    ):
        decoded_scalars(column_of(kind, [0, beyond]), dtype)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([2**63 - 1, 2**63], np.uint64), "int64"),
        (np.array([0, -1], np.int64), "uint64"),
        (np.array([0, 2.0**63]), "int64"),
        (np.array([0, 2.0**64]), "uint64"),
        (np.array([0.0, -1.0]), "uint64"),
        (np.array([0, -(2.0**63) - 2048]), "int64"),
    ],
)
def test_values_beyond_64_bit_integers_raise_error(values: Any, dtype: str) -> None:
    found = decoded_scalars(values[:1], dtype)
    assert found.tolist() == values[:1].tolist()
    with pytest.raises(ValueError, match=f"do not fit into {dtype}"):
        decoded_scalars(values, dtype)
