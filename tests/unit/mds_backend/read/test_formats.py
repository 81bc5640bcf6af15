"""NumPy arrays and pandas columns, and the images, pickles and strings that they contain."""

import struct
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.small_datasets import array_of, map_of, struct_of, write_dataset

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.errors import CorruptDatasetError, EncodingRangeError
from mdstorm_backend.format.schema import Column, Origin
from mdstorm_backend.format.values.arrow_types import SparkType
from mdstorm_backend.read import late
from mdstorm_backend.read.batch_formats import column_to_numpy
from mdstorm_backend.read.late import decode_late, decode_pixels, object_decoder

UTC = timezone.utc
URL = "file:///data"


def write(directory: Path, spark_type: SparkType, values: list[Any]) -> Dataset:
    """Write one column with one row per shard."""
    return write_dataset(directory, {"a": values}, {"a": spark_type}, shard_size=1)


def read(dataset: Dataset, batch_size: int = 100) -> list[Any]:
    return [batch["a"] for batch in dataset.batches(batch_size)]


@pytest.mark.parametrize(
    ("spark_type", "values", "dtype"),
    [
        ("boolean", [True, False], "bool"),
        ("byte", [1, -2], "int8"),
        ("short", [1, -2], "int16"),
        ("integer", [1, -2], "int32"),
        ("long", [1, -2], "int64"),
        ("float", [0.5, -2.0], "float32"),
        ("double", [0.1, -2.0], "float64"),
        ("float", [0.5, None], "float32"),
        ("date", [date(2020, 1, 1), date(1, 1, 1)], "datetime64[D]"),
        ("timestamp_ntz", [datetime(2020, 1, 1), datetime(9999, 12, 31)], "datetime64[us]"),
        ("timestamp", [datetime(2020, 1, 1, tzinfo=UTC)] * 2, "datetime64[us]"),
        ("interval day to second", [timedelta(seconds=1), timedelta(-1)], "int64"),
        ("string", ["a", "b\0"], "object"),
        ("binary", [b"a", b"\0"], "object"),
        ("decimal(5,2)", [Decimal("1.50"), Decimal("0.00")], "object"),
    ],
)
def test_numpy_arrays_have_the_column_type(
    spark_type: SparkType, values: list[Any], dtype: str, tmp_path: Path
) -> None:
    (found,) = read(write(tmp_path, spark_type, values))
    assert found.dtype == dtype
    if "interval" in str(spark_type):
        values = [value // timedelta(microseconds=1) for value in values]
    elif spark_type == "timestamp":
        values = [value.replace(tzinfo=None) for value in values]
    expected = np.array(values, dtype)
    np.testing.assert_array_equal(found, expected)
    assert found.flags.writeable


@pytest.mark.parametrize(
    ("spark_type", "values", "expected"),
    [
        ("boolean", [True, None, False], [1.0, np.nan, 0.0]),
        ("byte", [1, None, -1], [1.0, np.nan, -1.0]),
        ("long", [1, None, -1], [1.0, np.nan, -1.0]),
        ("float", [0.5, None, np.nan], [0.5, np.nan, np.nan]),
        ("interval day to second", [timedelta(0), None, None], [0.0, np.nan, np.nan]),
        ("date", [date(1970, 1, 2), None, None], ["1970-01-02", "NaT", "NaT"]),
        ("timestamp_ntz", [datetime(1970, 1, 2), None, None], ["1970-01-02", "NaT", "NaT"]),
        ("string", ["a", None, ""], ["a", None, ""]),
        ("binary", [b"a", None, b""], [b"a", None, b""]),
        ("decimal(5,2)", [Decimal("1.50"), None, None], [Decimal("1.50"), None, None]),
    ],
)
def test_nulls_in_a_column_determine_the_dtype_in_all_batches(
    spark_type: SparkType, values: list[Any], expected: list[Any], tmp_path: Path
) -> None:
    dataset = write(tmp_path, spark_type, values)
    (whole,) = read(dataset)
    one_by_one = read(dataset, batch_size=1)
    assert {batch.dtype for batch in one_by_one} == {whole.dtype}
    joined = np.concatenate(one_by_one)
    np.testing.assert_array_equal(whole, np.array(expected, whole.dtype))
    np.testing.assert_array_equal(joined, whole)
    if spark_type in ("boolean", "byte", "long", "interval day to second"):
        assert whole.dtype == np.float64


@pytest.mark.parametrize("element", ["integer", "float", "boolean"])
def test_null_elements_are_nan_in_every_batch(element: str, tmp_path: Path) -> None:
    one, zero = (True, False) if element == "boolean" else (1, 0)
    dataset = write(tmp_path, array_of(element), [[one, zero], [None, one]])
    (whole,) = read(dataset)
    np.testing.assert_array_equal(whole, [[1, 0], [np.nan, 1]])
    dtype = np.dtype(np.float32 if element == "float" else np.float64)
    assert {batch.dtype for batch in read(dataset, batch_size=1)} == {whole.dtype} == {dtype}


@pytest.mark.parametrize(
    "rows",
    [[[1], [2, 3], []], [[1, 2], None], [None, None], [[], []], [[1], None, [2, 3], [4, 5]]],
    ids=str,
)
@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_arrays_of_different_shapes_are_object_arrays(
    rows: list[Any], batch_size: int, tmp_path: Path
) -> None:
    dataset = write(tmp_path, array_of("short"), rows)
    batches = read(dataset, batch_size=batch_size)
    assert {(batch.dtype, batch.ndim) for batch in batches} == {(np.dtype(object), 1)}
    found = [row for batch in batches for row in batch]
    assert [None if row is None else row.tolist() for row in found] == rows
    assert {row.dtype for row in found if row is not None} <= {np.dtype(np.int16)}


@pytest.mark.parametrize(
    ("spark_type", "values"),
    [
        (array_of("string"), [["a", None], None, []]),
        (struct_of(x="long", y="date"), [{"x": 1, "y": date(2020, 1, 1)}, None]),
        (map_of("string", "double"), [[("a", 1.0)], None, []]),
        (array_of(array_of("long")), [[[1], None], [], None]),
    ],
    ids=str,
)
def test_nested_values_are_python_objects(
    spark_type: SparkType, values: list[Any], tmp_path: Path
) -> None:
    (found,) = read(write(tmp_path, spark_type, values))
    assert found.dtype == object
    assert list(found) == values


@pytest.mark.parametrize(
    ("spark_type", "values", "dtype"),
    [
        ("long", [1, 2], "int64"),
        ("long", [1, None], "float64"),
        ("boolean", [True, None], "float64"),
        ("string", ["a", None], "object"),
        ("date", [date(2020, 1, 1), None], "object"),
        ("date", [date(2020, 1, 1)] * 2, "object"),
        ("timestamp_ntz", [datetime(2020, 1, 1), None], "datetime64[ns]"),
        (array_of("long"), [[1, 2], [3, 4]], "object"),
        (array_of("long"), [[1], None], "object"),
    ],
    ids=str,
)
def test_pandas_frames_have_the_expected_dtypes(
    spark_type: SparkType, values: list[Any], dtype: str, tmp_path: Path
) -> None:
    column = write(tmp_path, spark_type, values).to_pandas()["a"]
    assert column.dtype == dtype
    if dtype != "object":
        column = column.astype(object).where(column.notna(), None)
    assert [row.tolist() if isinstance(row, np.ndarray) else row for row in column] == values


def test_timestamp_out_of_pandas_range_raises_error(tmp_path: Path) -> None:
    dataset = write(tmp_path, "timestamp_ntz", [datetime(2020, 1, 1), datetime(3000, 1, 1)])
    with pytest.raises(EncodingRangeError, match=r"'a' holds the time 3000-01-01.* in row 1 "):
        dataset.to_pandas()


def test_numpy_dtype_of_a_transformed_arrow_column_depends_only_on_its_own_nulls() -> None:
    assert column_to_numpy(pa.array([1, 2], pa.int8()), None).dtype == np.int8
    assert column_to_numpy(pa.array([1, None], pa.int8()), None).dtype == np.float64
    ragged = column_to_numpy(pa.array([[1], [2, 3]], pa.list_(pa.int8())), None)
    assert [row.tolist() for row in ragged] == [[1], [2, 3]]


def column(encoding: str) -> Column:
    return Column("x", encoding, origin=Origin(URL, allow_unsafe_types=True))


def several(*images: bytes) -> bytes:
    return struct.pack(f"<{2 + len(images)}I", 0, len(images), *map(len, images)) + b"".join(images)


@pytest.mark.parametrize("encoding", ["jpeg_array", "jpegarray"])
def test_array_of_jpegs_may_be_empty(encoding: str) -> None:
    assert decode_late(pa.array([bytes(4)]), column(encoding)).tolist() == [[]]


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("png", b""),
        ("jpeg", b"\xff\xd8\xff"),
        ("pil", b"\1"),
        ("list[png]", b""),
        ("list[png]", several(b"no png")),
        ("jpeg_array", b"\1\0\0\0"),
        ("pkl", b""),
        ("pkl", b"cno_such_module\nclass\n."),
        ("json", "{"),
        ("json", "[" * 100_000),
        ("str_decimal", "x"),
    ],
)
def test_value_that_cannot_be_decoded_raises_error_with_its_column(
    encoding: str, value: bytes | str
) -> None:
    of_value = column(encoding)
    for decode in (
        lambda: object_decoder(of_value.parsed_encoding, of_value, URL)(value),
        lambda: decode_late(pa.array([value, value]), of_value),
    ):
        with pytest.raises(
            CorruptDatasetError, match=r"column 'x' of file:///data .* as "
        ) as caught:
            decode()
        assert caught.value.url == URL


def decode(value: bytes, place: np.ndarray | None) -> np.ndarray:
    """Return a row's value, written into `place` if it fits."""
    pixels = np.frombuffer(value, np.uint8)[None]
    if place is None or place.shape != pixels.shape:
        return pixels.copy()
    place[:] = pixels
    return place


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("values", [[b"ab", b"c", b"de"], [b"c", b"ab", b"ab"], [None, b"a"]])
def test_images_of_different_shapes_are_object_arrays(workers: int, values: list[Any]) -> None:
    found = decode_pixels(decode, values, workers)
    assert found.dtype == object
    assert [None if p is None else p.tobytes() for p in found] == values
    assert all(pixels is None or pixels.flags.owndata for pixels in found)


def test_decoded_images_beyond_the_stack_limit_are_object_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(late, "MAX_STACK_BYTES", 5)
    found = decode_pixels(decode, [b"ab", b"cd", b"ef"], 2)
    assert found.dtype == object  # not stacked in one array
    assert [pixels.tobytes() for pixels in found] == [b"ab", b"cd", b"ef"]
