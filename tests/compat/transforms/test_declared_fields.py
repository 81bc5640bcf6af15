"""`TransformSpec`: which columns it leaves, and values that do or do not agree with it."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdstorm._transforms.row_transform import as_declared
from mdstorm.codecs import NdarrayCodec
from mdstorm.errors import TransformError
from mdstorm.transform import TransformSpec, edit_field, transform_schema
from mdstorm.unischema import Unischema, UnischemaField

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


X, Y = edit_field("x", np.int32, ()), edit_field("y", np.int32, ())


@pytest.mark.parametrize(
    ("spec", "columns"),
    [
        ({}, ("a", "b", "c")),
        ({"removed_fields": ["b"]}, ("a", "c")),
        ({"removed_fields": ["b", "unknown"]}, ("a", "c")),
        ({"selected_fields": ["c", "a"]}, ("c", "a")),
        ({"selected_fields": ["c", "unknown"]}, ("c",)),
        ({"selected_fields": []}, ()),
        ({"edit_fields": [X]}, ("a", "b", "c", "x")),
        ({"edit_fields": [edit_field("a", np.int32, ()), X]}, ("b", "c", "a", "x")),
        ({"edit_fields": [Y, X, Y]}, ("a", "b", "c", "y", "x")),
        ({"edit_fields": [X], "removed_fields": ["a"]}, ("b", "c", "x")),
        ({"edit_fields": [X], "selected_fields": ["x", "b"]}, ("x", "b")),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*specified some field names")
def test_edited_columns_come_last(spec: dict[str, Any], columns: tuple[str, ...]) -> None:
    assert TransformSpec(**spec)._mdstorm_columns_of(["a", "b", "c"]) == columns
    assert tuple(transform_schema(SCHEMA, TransformSpec(**spec)).fields) == columns


SCHEMA = Unischema(
    "S",
    [
        UnischemaField("a", np.int64, (), NdarrayCodec()),
        UnischemaField("b", np.str_, (), None, True),
        UnischemaField("c", np.float32, (2,), NdarrayCodec()),
    ],
)


def test_edited_fields_may_be_those_of_a_schema() -> None:
    field = UnischemaField("x", np.float32, (2,), NdarrayCodec(), True)
    spec = TransformSpec(edit_fields=[field])
    assert spec._mdstorm_columns_of(["a"]) == ("a", "x")
    assert tuple(transform_schema(SCHEMA, spec).x) == ("x", np.float32, (2,), None, True)


def test_edited_fields_may_have_a_codec_as_petastorm_takes_them() -> None:
    spec = TransformSpec(edit_fields=[("c", np.int64, (None, 1), NdarrayCodec(), False)])
    assert tuple(transform_schema(SCHEMA, spec).c) == ("c", np.int64, (None, 1), None, False)
