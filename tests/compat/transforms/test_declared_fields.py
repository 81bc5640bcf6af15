"""What a transform declares of its columns, and values that do or do not agree with it."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm._transforms.row_transform import as_declared
from mdstorm.errors import TransformError

NUMBERS = [np.bool_, np.int8, np.uint8, np.int32, np.uint64, np.int64, np.float32, np.float64]


def declare(values: Any, dtype: Any, shape: Any = ()) -> Any:
    return as_declared(values, ("x", dtype, shape, False))


@given(
    value=st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(width=32, allow_nan=False)),
    found=st.sampled_from(NUMBERS),
    declared=st.sampled_from(NUMBERS),
)
def test_numbers_keep_their_value_or_are_refused(value: Any, found: Any, declared: Any) -> None:
    with np.errstate(all="ignore"):
        try:
            values = np.array([value]).astype(found)
        except OverflowError:
            return
    try:
        result = declare(values, declared)
    except TransformError:
        assert np.dtype(declared).kind in "biu"
        return
    assert result.dtype == declared
    if np.dtype(declared).kind in "biu":
        assert result.tolist() == values.tolist()
    else:
        assert result[0] == declared(values[0])


def test_integers_with_nulls_stay_floats() -> None:
    values = np.array([1.0, np.nan])
    assert declare(values, np.int32) is values
    with pytest.raises(TransformError, match="column 'x' is declared as int32"):
        declare(np.array([1.5, np.nan]), np.int32)


class TestArrays:
    """Columns of arrays, in all the forms that they have."""

    def test_elements_of_lists_are_cast(self) -> None:
        found = declare(pa.array([[1, 2], None, [3]]), np.float32, (None,))
        assert found.type == pa.list_(pa.float32())
        assert found.to_pylist() == [[1, 2], None, [3]]

    @pytest.mark.parametrize("dtype", [np.int32, np.float32])
    def test_nulls_among_elements_stay_nulls(self, dtype: Any) -> None:
        found = declare(pa.array([[1, None], [2]]), dtype, (None,))
        assert found.to_pylist() == [[1, None], [2]]

    def test_cells_of_several_shapes_are_cast(self) -> None:
        cells = np.fromiter([np.ones((1, 2)), None, np.ones((2, 2))], object, 3)
        found = declare(cells, np.float32, (None, 2))
        dtypes = [None if cell is None else cell.dtype for cell in found]
        assert dtypes == [np.float32, None, np.float32]

    @pytest.mark.parametrize(
        ("values", "shape"),
        [
            (np.ones((2, 3)), (2,)),
            (np.ones((2, 3)), ()),
            (np.ones(2), (1,)),
            (pa.array([[1.0], [1.0, 2.0]]), (1,)),
            (pa.array([[1.0]]), ()),
            (np.fromiter([np.ones((1, 2))], object, 1), (1, 3)),
        ],
        ids=["length", "scalar", "array", "ragged", "list", "cell"],
    )
    def test_other_shapes_are_refused(self, values: Any, shape: Any) -> None:
        with pytest.raises(TransformError, match="field x must be the shape"):
            declare(values, np.float64, shape)

    def test_no_rows_have_any_shape(self) -> None:
        assert len(declare(np.empty(0), np.float64, (3,))) == 0


@pytest.mark.parametrize(
    "values",
    [pa.array(["a"]), pa.array([["a"]]), np.array(["2020"], "M8[D]"), np.array([{}], object)],
    ids=["text", "texts", "date", "object"],
)
def test_what_is_no_number_is_refused(values: Any) -> None:
    with pytest.raises(TransformError, match="declared as int64"):
        declare(values, np.int64)


def test_numbers_are_no_texts() -> None:
    with pytest.raises(TransformError, match="declared as <U0"):
        declare(np.arange(2), np.str_)


@pytest.mark.parametrize("values", [pa.nulls(2), pa.array([True, None])], ids=["nulls", "booleans"])
def test_nulls_stay(values: Any) -> None:
    assert declare(values, np.bool_) is values
