"""`TransformSpec`: the columns, rows and values after a transform."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.readers import batch_reader, row_reader, write_parquet

from mdstorm._transforms import RowTransform
from mdstorm.codecs import NdarrayCodec
from mdstorm.errors import TransformError
from mdstorm.reader import make_reader
from mdstorm.transform import TransformSpec, edit_field, transform_schema
from mdstorm.unischema import Unischema, UnischemaField
from mdstorm_backend.format import Schema

GOLDEN = Path(__file__).parents[1] / "etl" / "golden"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return write_parquet(tmp_path, {"id": [0, 1, 2], "name": ["a", "b", None]}, row_group_size=2)


def rows(url: str, function: Any, *specification: Any, **arguments: Any) -> list[Any]:
    with row_reader(url, transform_spec=TransformSpec(function, *specification), **arguments) as r:
        return list(r)


def test_strings_and_bytes_returned_by_function_are_unchanged(url: str) -> None:
    new = [("text", np.str_, (), False), ("data", np.bytes_, (), False)]
    found = rows(url, lambda row: {**row, "text": f"{row['id']}", "data": b"1"}, new)
    assert [type(value) for value in found[0]] == [np.int64, np.str_, str, bytes]


def test_list_changed_in_place_by_function_is_returned(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> dict[str, Any]:
        row["values"][0] = 9
        return row

    url = write_parquet(tmp_path, {"values": [[1], [2, 3]]})
    assert [list(row.values) for row in rows(url, change)] == [[9], [9, 3]]


def test_declared_fields_are_last_and_have_the_declared_type(url: str) -> None:
    found = rows(
        url,
        lambda row: {**row, "id": float(row["id"]), "image": np.full((2, 2), row["id"])},
        [("image", np.float32, (2, 2), False), ("id", np.float32, (), False)],
    )
    assert found[0]._fields == ("name", "image", "id")
    assert found[1].image.dtype == np.float32
    assert found[1].image.tolist() == [[1, 1], [1, 1]]
    assert type(found[1].id) is np.float32


def test_selected_fields_without_a_function_select_columns(url: str) -> None:
    assert {row._fields for row in rows(url, None, None, None, ["name"])} == {("name",)}


@pytest.mark.parametrize(
    "spec",
    [
        TransformSpec(lambda row: row),
        TransformSpec(removed_fields=["vec"]),
        TransformSpec(edit_fields=[("id", np.int32, (), False)]),
        TransformSpec(edit_fields=[("png", np.uint8, (None, None, 3), False)]),
        TransformSpec(selected_fields=["id", "png", "grey"]),
    ],
    ids=["function", "removed", "edited", "edited image", "selected"],
)
@pytest.mark.parametrize("pool", ["dummy", pytest.param("process", marks=pytest.mark.long)])
def test_images_kept_by_transform_are_decoded(spec: TransformSpec, pool: str) -> None:
    url = f"file://{GOLDEN / 'codecs'}"
    with make_reader(url, shuffle_row_groups=False) as reader:
        expected = [(row.png.tolist(), row.grey.tolist()) for row in reader]
    with make_reader(
        url, shuffle_row_groups=False, reader_pool_type=pool, transform_spec=spec
    ) as reader:
        assert [(row.png.tolist(), row.grey.tolist()) for row in reader] == expected


@pytest.mark.parametrize("reader", [batch_reader, row_reader])
def test_declared_field_without_a_function_that_adds_it_raises_error(url: str, reader: Any) -> None:
    spec = TransformSpec(edit_fields=[("id", np.int64, (), False), ("x", np.int64, (), False)])
    with pytest.raises(TransformError, match=r"edit_fields declares \['x'\].* pass func"):
        reader(url, transform_spec=spec)


def test_arrays_of_different_shapes_returned_by_function_are_unchanged(url: str) -> None:
    declared = [("x", np.int64, (None,), False)]
    found = rows(url, lambda row: {"x": np.arange(row["id"])}, declared, None, ["x"])
    assert [row.x.tolist() for row in found] == [[], [0], [0, 1]]


def test_lists_become_arrays_of_the_declared_shape(url: str) -> None:
    declared = [("x", np.float32, (2,), False)]
    found = rows(url, lambda row: {"x": [row["id"], 1]}, declared, None, ["x"])
    assert [row.x.tolist() for row in found] == [[0, 1], [1, 1], [2, 1]]
    assert found[0].x.dtype == np.float32
    with pytest.raises(TransformError, match=r"column 'x' .* a list that is not an array"):
        rows(url, lambda row: {"x": [[1], [1, 2]]}, declared, None, ["x"])


def test_values_declared_as_objects_are_unchanged(url: str) -> None:
    declared = [("x", np.object_, (), True)]
    found = rows(url, lambda row: {"x": {"n": [1]}}, declared, None, ["x"])
    assert [row.x for row in found] == [{"n": [1]}] * 3


def test_tensors_returned_by_function_become_arrays(url: str) -> None:
    torch = pytest.importorskip("torch")
    declared = [("x", np.float32, (2,), False)]
    found = rows(url, lambda row: {"x": torch.ones(2)}, declared, None, ["x"])
    assert [type(row.x) for row in found] == [np.ndarray] * 3


NUMBERS = [np.bool_, np.int8, np.uint8, np.int32, np.uint64, np.int64, np.float32, np.float64]


def declare(values: Any, dtype: Any, shape: Any = ()) -> Any:
    """Return a column that is only declared, by a transform without a function."""
    spec = TransformSpec(edit_fields=[("x", dtype, shape, False)])
    return RowTransform(spec, Schema(()), ["x"])({"x": values})["x"]


@given(
    value=st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(width=32, allow_nan=False)),
    found=st.sampled_from(NUMBERS),
    declared=st.sampled_from(NUMBERS),
)
def test_numbers_are_cast_exactly_or_raise_error(value: Any, found: Any, declared: Any) -> None:
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
    """Array columns as lists, as one array, or as one array per row."""

    def test_list_elements_are_cast(self) -> None:
        found = declare(pa.array([[1, 2], None, [3]]), np.float32, (None,))
        assert found.type == pa.list_(pa.float32())
        assert found.to_pylist() == [[1, 2], None, [3]]

    @pytest.mark.parametrize("dtype", [np.int32, np.float32])
    def test_null_elements_stay_null(self, dtype: Any) -> None:
        found = declare(pa.array([[1, None], [2]]), dtype, (None,))
        assert found.to_pylist() == [[1, None], [2]]

    def test_arrays_of_different_shapes_in_a_column_are_cast(self) -> None:
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
    def test_arrays_of_wrong_shape_raise_error(self, values: Any, shape: Any) -> None:
        with pytest.raises(TransformError, match="field x must be the shape"):
            declare(values, np.float64, shape)

    def test_empty_column_fits_any_declared_shape(self) -> None:
        assert len(declare(np.empty(0), np.float64, (3,))) == 0


@pytest.mark.parametrize(
    "values",
    [pa.array(["a"]), pa.array([["a"]]), np.array(["2020"], "M8[D]"), np.array([{}], object)],
    ids=["string", "strings", "date", "object"],
)
def test_non_numeric_values_raise_error(values: Any) -> None:
    with pytest.raises(TransformError, match="declared as int64"):
        declare(values, np.int64)


def test_numbers_declared_as_strings_raise_error() -> None:
    with pytest.raises(TransformError, match="declared as <U0"):
        declare(np.arange(2), np.str_)


@pytest.mark.parametrize("values", [pa.nulls(2), pa.array([True, None])], ids=["nulls", "booleans"])
def test_columns_with_nulls_declared_as_booleans_are_unchanged(values: Any) -> None:
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
        ({"edit_fields": [X]}, ("a", "b", "c", "x")),
        ({"edit_fields": [edit_field("a", np.int32, ()), X]}, ("b", "c", "a", "x")),
        ({"edit_fields": [Y, X, Y]}, ("a", "b", "c", "y", "x")),
        ({"edit_fields": [X], "removed_fields": ["a"]}, ("b", "c", "x")),
        ({"edit_fields": [X], "selected_fields": ["x", "b"]}, ("x", "b")),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*specified some field names")
def test_edited_columns_are_last_unless_columns_are_selected(
    tmp_path: Path, spec: dict[str, Any], columns: tuple[str, ...]
) -> None:
    url = write_parquet(tmp_path, {"a": [0], "b": ["x"], "c": [1.0]})

    def edit(row: dict[str, Any]) -> dict[str, Any]:
        return {name: {**row, "x": 1, "y": 2}[name] for name in columns}

    with row_reader(url, transform_spec=TransformSpec(edit, **spec)) as reader:
        assert [row._fields for row in reader] == [columns]
    assert tuple(transform_schema(SCHEMA, TransformSpec(**spec)).fields) == columns


SCHEMA = Unischema(
    "S",
    [
        UnischemaField("a", np.int64, (), NdarrayCodec()),
        UnischemaField("b", np.str_, (), None, True),
        UnischemaField("c", np.float32, (2,), NdarrayCodec()),
    ],
)


def test_empty_selection_leaves_no_fields() -> None:
    assert not transform_schema(SCHEMA, TransformSpec(selected_fields=[])).fields


def test_edited_fields_may_be_unischema_fields() -> None:
    field = UnischemaField("x", np.float32, (2,), NdarrayCodec(), True)
    spec = TransformSpec(edit_fields=[field])
    assert tuple(transform_schema(SCHEMA, spec).x) == ("x", np.float32, (2,), None, True)


def test_edited_field_codec_is_ignored() -> None:
    spec = TransformSpec(edit_fields=[("c", np.int64, (None, 1), NdarrayCodec(), False)])
    assert tuple(transform_schema(SCHEMA, spec).c) == ("c", np.int64, (None, 1), None, False)
