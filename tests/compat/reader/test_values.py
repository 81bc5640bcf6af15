"""The values of batches and of rows, type by type."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.compat.readers import batch_reader, row_reader, write_parquet

D = Decimal
DAY = dt.date(2020, 1, 2)
TIME = dt.datetime(2020, 1, 2, 3, 4, 5, 6)


def batch_of(directory: Path, array: pa.Array) -> Any:
    with batch_reader(write_parquet(directory, {"c": array})) as reader:
        (batch,) = reader
    return batch.c


def rows_of(directory: Path, array: pa.Array) -> list[Any]:
    with row_reader(write_parquet(directory, {"c": array})) as reader:
        return [row.c for row in reader]


def objects(*values: Any) -> Any:
    return np.fromiter(values, object, len(values))


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        ([True, False], pa.bool_(), np.array([True, False])),
        ([True, None], pa.bool_(), objects(True, None)),
        ([1, 2], pa.int8(), np.array([1, 2], np.int8)),
        ([1, None], pa.int32(), np.array([1, NAN])),
        ([1.5, None], pa.float32(), np.array([1.5, NAN], np.float32)),
        (["a", "bcd"], pa.string(), np.array(["a", "bcd"])),
        (["a", None], pa.string(), objects("a", None)),
        (["a\0", "b"], pa.string(), objects("a\0", "b")),
        ([b"a\0", None], pa.binary(), objects(b"a\0", None)),
        ([D("1.50"), None], pa.decimal128(6, 2), objects(D("1.50"), None)),
        ([DAY, None], pa.date32(), objects(DAY, None)),
        ([DAY, DAY], pa.date32(), objects(DAY, DAY)),
        ([TIME, None], pa.timestamp("us"), np.array([TIME, "NaT"], "datetime64[ns]")),
        ([[1, 2], [3, 4]], pa.list_(pa.int32()), np.array([[1, 2], [3, 4]], np.int32)),
        ([[], []], pa.list_(pa.int32()), np.empty((2, 0), np.int32)),
        ([[1, None], [3, 4]], pa.list_(pa.int32()), np.array([[1, NAN], [3, 4]])),
        ([["a"], ["b"]], pa.list_(pa.string()), np.array([["a"], ["b"]], object)),
        ([[DAY], [DAY]], pa.list_(pa.date32()), np.array([[DAY], [DAY]], object)),
        ([[TIME], [None]], pa.list_(pa.timestamp("us")), np.array([[TIME], ["NaT"]], "M8[ns]")),
        ([[True, None], [False, True]], pa.list_(pa.bool_()), None),
    ],
    ids=str,
)
def test_columns_of_batches(tmp_path: Path, values: Any, type_: Any, expected: Any) -> None:
    found = batch_of(tmp_path, pa.array(values, type_))
    if expected is None:
        expected = np.array(values, object)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("values", [[[1, 2], [3]], [[1], None]], ids=["lengths", "null"])
def test_arrays_that_are_not_alike_are_an_object_per_row(tmp_path: Path, values: Any) -> None:
    found = batch_of(tmp_path, pa.array(values, pa.list_(pa.int32())))
    assert (found.dtype, found.shape) == (object, (2,))
    assert [None if cell is None else cell.tolist() for cell in found] == values
    assert found[0].dtype == np.int32


def test_timestamps_that_nanoseconds_cannot_hold(tmp_path: Path) -> None:
    array = pa.array([dt.datetime(9999, 12, 31)], pa.timestamp("us"))
    with pytest.raises(ValueError, match=r"'c' .* would result in out of bounds timestamp"):
        batch_of(tmp_path, array)


def test_integers_with_nulls_in_some_row_groups_are_floats_in_all(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"c": pa.array([1, 2, 3, None])}, row_group_size=2)
    with batch_reader(url) as reader:
        assert [batch.c.dtype for batch in reader] == [np.float64] * 2


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        ([True, None], pa.bool_(), [np.bool_(True), None]),
        ([1, None], pa.int8(), [np.int8(1), None]),
        ([1, 2], pa.int64(), [np.int64(1), np.int64(2)]),
        ([1.5, None], pa.float32(), [np.float32(1.5), np.float32(NAN)]),
        (["a\0", None], pa.string(), [np.str_("a\0"), None]),
        ([b"a\0", None], pa.binary(), [np.bytes_(b"a\0"), None]),
        ([D("1.50"), None], pa.decimal128(6, 2), [D("1.50"), None]),
        ([DAY, None], pa.date32(), [np.datetime64(DAY, "D"), None]),
        ([TIME, None], pa.timestamp("us"), [np.datetime64(TIME, "us"), None]),
    ],
    ids=str,
)
def test_scalars_of_rows(tmp_path: Path, values: Any, type_: Any, expected: list[Any]) -> None:
    found = rows_of(tmp_path, pa.array(values, type_))
    assert [type(value) for value in found] == [type(value) for value in expected]
    assert repr(found) == repr(expected)


def test_arrays_of_rows(tmp_path: Path) -> None:
    first, second, third = rows_of(tmp_path, pa.array([[1, 2], [3], None], pa.list_(pa.int16())))
    assert (first.dtype, first.tolist(), second.tolist()) == (np.int16, [1, 2], [3])
    assert third is None


def test_texts_in_arrays_of_rows(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, pa.array([["a", None]]))
    assert (row.dtype, row.tolist()) == (object, ["a", None])
