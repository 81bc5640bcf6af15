"""Scalars as the type of their field: converted where that keeps the value, refused where not."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mdstorm._datasets.field_decoders import cast_scalars


@pytest.mark.parametrize(
    ("values", "type_", "expected"),
    [
        (np.array([1, 255], np.int16), pa.uint8(), np.array([1, 255], np.uint8)),
        (np.array([1.9, -1.9]), pa.int32(), np.array([1, -1], np.int32)),
        (np.array([1, 2], np.int64), pa.float32(), np.array([1, 2], np.float32)),
        (np.array([0, 3], np.int8), pa.bool_(), np.array([False, True])),
        (np.array([True, False]), pa.int64(), np.array([1, 0])),
        (np.array([], np.int64), pa.int8(), np.array([], np.int8)),
        (pa.array([1, None], pa.int64()), pa.uint8(), pa.array([1, None], pa.uint8())),
        (pa.array([1.9, None]), pa.int8(), pa.array([1, None], pa.int8())),
        (pa.array([2**60 + 1, None]), pa.float64(), pa.array([2.0**60, None])),
        (pa.array(["4", None]), pa.int64(), pa.array([4, None])),
        (pa.array([b"a", None]), pa.string(), pa.array(["a", None])),
        (pa.array(["ä"]), pa.binary(), pa.array(["ä".encode()])),
        (np.array([5, 6]), pa.string(), pa.array(["5", "6"])),
    ],
)
def test_values_keep_their_meaning(values: Any, type_: pa.DataType, expected: Any) -> None:
    found = cast_scalars(values, type_)
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    else:
        assert found.equals(expected)


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (np.array([1, 256], np.int16), pa.uint8()),
        (np.array([-1, 2]), pa.uint64()),
        (np.array([1.0, np.nan]), pa.int32()),
        (np.array([np.inf]), pa.int64()),
        (np.array([1e30]), pa.int64()),
        (np.array([2.0**63]), pa.int64()),
        (pa.array([300, None]), pa.int8()),
        (pa.array([1e10, None]), pa.int32()),
        (pa.array([float("nan"), None]), pa.int32()),
        (pa.array(["x"]), pa.int64()),
        (pa.array([b"\xff"]), pa.string()),
    ],
)
def test_values_that_do_not_fit_are_refused(values: Any, type_: pa.DataType) -> None:
    with pytest.raises((ValueError, pa.ArrowException)):
        cast_scalars(values, type_)
