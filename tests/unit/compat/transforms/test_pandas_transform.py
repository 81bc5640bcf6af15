"""A transform of one shard's rows: the function's input and the values it returns."""

import datetime as dt
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.kit.small_datasets import Fields, plan

from mdstorm._transforms import PandasTransform
from mdstorm.errors import NoMatchingFieldsError, TransformError
from mdstorm.transform import TransformSpec, edit_field
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.format.values.batch import Values

NAN = float("nan")


def run(cells: Any, dtype: Any = np.int64, shape: Any = ()) -> Values:
    """Return the values of column `x` after a transform whose function returns `cells`."""
    spec = TransformSpec(
        lambda frame: pd.DataFrame({"x": cells}), [edit_field("x", dtype, shape)], ["id"]
    )
    return PandasTransform(spec, plan({"id": "long"}), ["id"])({"id": np.arange(2)})["x"]


def listed(values: Values) -> list[Any]:
    return list(values.tolist() if isinstance(values, np.ndarray) else values.to_pylist())


def test_empty_arrays_have_the_declared_type() -> None:
    """NumPy would convert an empty list to float64."""
    for cells in ([[1, 2], []], [[], None]):
        values = run(cells, np.int32, (None,))
        assert values.type == pa.list_(pa.int32())
        assert values.to_pylist() == cells
    alone = run([[], []], np.int32, (None,))
    assert (alone.dtype, alone.shape) == (np.int32, (2, 0))


class TestNulls:
    """Columns that are null in all rows."""

    def test_null_numbers_become_nan(self) -> None:
        values = run([None, None])
        assert values.dtype == np.float64
        assert np.isnan(values).all()

    @pytest.mark.parametrize(
        ("dtype", "type_"),
        [
            (np.str_, pa.string()),
            (np.bytes_, pa.binary()),
            (np.bool_, pa.bool_()),
            (dt.date, pa.date32()),
            (Decimal, pa.null()),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("null", [None, NAN, pd.NA], ids=str)
    def test_all_null_columns_have_the_declared_type(
        self, dtype: Any, type_: pa.DataType, null: Any
    ) -> None:
        values = run([null, null] if null is None else pd.Series([null] * 2, dtype=object), dtype)
        assert (values.type, values.null_count) == (type_, 2)


SECOND = dt.timedelta(seconds=1)
CET = dt.timezone(dt.timedelta(hours=1))


@pytest.mark.parametrize(
    ("cells", "dtype", "expected"),
    [
        (np.full(2, NAN), np.str_, [None, None]),
        (pd.array([True, None], "boolean"), np.bool_, [True, None]),
        (pd.array([1, 2**53 + 1], "Int64"), np.int64, [1, 2**53 + 1]),
        (pd.array([1, None], "Int64"), np.int64, [1.0, NAN]),
        (pd.Categorical([1, None]), np.int64, [1.0, NAN]),
        (pd.arrays.SparseArray([0, 5]), np.int64, [0, 5]),
        (pd.to_timedelta([1, 2], "s"), np.int64, [10**6, 2 * 10**6]),
        (pd.to_timedelta([1, None], "s"), np.int64, [1e6, NAN]),
        (pd.Series([SECOND] * 2, dtype=object), np.int64, [10**6] * 2),
        (
            pd.Series([dt.datetime(1970, 1, 1, 1, tzinfo=CET), None], dtype=object),
            np.datetime64,
            [dt.datetime(1970, 1, 1), None],
        ),
    ],
    ids=[
        "strings",
        "booleans",
        *["integers"] * 2,
        "categories",
        "sparse",
        *["timedeltas"] * 3,
        "times of a zone",
    ],
)
def test_pandas_extension_types_are_converted(cells: Any, dtype: Any, expected: list[Any]) -> None:
    values = run(cells, dtype)
    assert repr(listed(values)) == repr(expected)
    assert dtype is not np.str_ or values.type == pa.string()


def test_text_in_arrays_keeps_trailing_nul_characters() -> None:
    assert listed(run([["a\0"], ["b"]], np.str_, (None,))) == [["a\0"], ["b"]]


def test_null_booleans_in_arrays_stay_null() -> None:
    assert listed(run([[True], [None]], np.bool_, (None,))) == [[True], [None]]


@pytest.mark.parametrize("tail", [(3,), (2, 3)], ids=str)
def test_empty_column_has_the_declared_type(tail: tuple[int, ...]) -> None:
    values = run(pd.Series([], dtype=object), np.float32, tail)
    assert len(values) == 0
    if len(tail) > 1:
        assert (values.dtype, values.shape) == (np.float32, (0, *tail))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
def test_values_are_cast_to_the_declared_dtype_or_raise_error(shape: tuple[int, ...]) -> None:
    cells = [np.full(shape, i) if shape else i for i in (1.0, 2.0)]
    assert run(cells, np.float32, shape).dtype == np.float32
    with pytest.raises(TransformError, match="'x' is declared as int16 in edit_fields"):
        run([cell + 0.5 for cell in cells], np.int16, shape)


@pytest.mark.parametrize(
    "cells",
    [["a", 1], [1, "a"], [1, [2]], [[1], 2], [[1], "a"], [Decimal(1), "a"]],
    ids=str,
)
def test_cells_of_mixed_types_raise_error_that_names_column(cells: list[Any]) -> None:
    with pytest.raises(TransformError, match=r"column 'x'.*object.*Return values of one type"):
        run(pd.Series(cells, dtype=object))


def test_integers_over_64_bits_in_declared_number_raise_error_that_names_both_types() -> None:
    with pytest.raises(TransformError, match=r"'x' is declared as int64.*returned int"):
        run(pd.Series([1, 1 << 70], dtype=object))


def transform(fields: Fields, spec: TransformSpec, batch: dict[str, Values]) -> dict[str, Values]:
    schema = plan(fields)
    return PandasTransform(spec, schema, schema.names)(batch)


def test_values_are_copies_of_the_frame_that_a_function_keeps() -> None:
    kept = pd.DataFrame({"x": [1.0, 2.0]})
    found = transform({"x": "double"}, TransformSpec(lambda _: kept), {"x": np.zeros(2)})["x"]
    found[0] = 9  # type: ignore[index]
    assert kept["x"].tolist() == [1, 2]


def test_repeated_column_names_raise_error() -> None:
    spec = TransformSpec(lambda frame: pd.concat([frame, frame], axis=1))
    with pytest.raises(TransformError, match=r"several columns named \['id'\]: rename or drop"):
        transform({"id": "long"}, spec, {"id": np.arange(2)})


def test_timestamp_out_of_pandas_range_raises_error_that_names_column() -> None:
    batch = {"id": np.arange(1), "when": np.array(["9999-12-31"], "datetime64[us]")}
    with pytest.raises(TransformError, match=r"column 'when'.*cast the column to LONG or STRING"):
        transform({"id": "long", "when": "timestamp_ntz"}, TransformSpec(len), batch)


@pytest.mark.parametrize(
    "spec", [{"removed_fields": ["id"]}, {"selected_fields": []}], ids=["removed", "selected"]
)
def test_transform_that_removes_all_columns_raises_error(spec: dict[str, Any]) -> None:
    with pytest.raises(NoMatchingFieldsError, match=r"removes all of the columns \['id'\]"):
        PandasTransform(TransformSpec(**spec), plan({"id": "long"}), ["id"])


def test_unknown_removed_fields_warn_once() -> None:
    spec = TransformSpec(lambda frame: frame, removed_fields=["no"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = PandasTransform(spec, Schema(plan({"id": "long"}).columns), ["id"])
        made({"id": np.arange(2)})
        made({"id": np.arange(2)})
    (warning,) = caught
    assert "remove_fields specified some field names that are not part of the schema" in str(
        warning.message
    )
