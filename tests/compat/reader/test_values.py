"""The values of batches and of rows, type by type."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.compat.readers import batch_reader, row_reader, write_parquet

from mdstorm import make_batch_reader

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
        ([b"a\0", None], pa.binary(), objects(b"a\0", None)),
        ([[DAY], [DAY]], pa.list_(pa.date32()), np.array([[DAY], [DAY]], object)),
        ([[TIME], [None]], pa.list_(pa.timestamp("us")), np.array([[TIME], ["NaT"]], "M8[ns]")),
        (
            [[True, None], [False, True]],
            pa.list_(pa.bool_()),
            np.array([[True, None], [False, True]], object),
        ),
    ],
    ids=str,
)
def test_columns_of_batches(tmp_path: Path, values: Any, type_: Any, expected: Any) -> None:
    """Other types are in tests/conformance/programs/types.py."""
    found = batch_of(tmp_path, pa.array(values, type_))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("unit", "far"), [("us", "1066-10-14"), ("ms", "9999-12-31")])
def test_timestamps_that_nanoseconds_cannot_hold(tmp_path: Path, unit: str, far: str) -> None:
    times = pa.array([dt.datetime(2000, 1, 1), dt.datetime.fromisoformat(far)], pa.timestamp(unit))
    pq.write_table(pa.table({"n": [1, 2], "valid_to": times}), tmp_path / "a.parquet")
    url = f"file://{tmp_path}"
    error = pytest.raises(ValueError, match="would result in out of bounds timestamp")
    with make_batch_reader(url) as reader, error:
        next(reader)
    with make_batch_reader(url, schema_fields=["n"]) as reader:
        assert next(reader).n.tolist() == [1, 2]
    with make_batch_reader(url, filters=[("valid_to", "=", dt.datetime(2000, 1, 1))]) as reader:
        assert next(reader).n.tolist() == [1]


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
