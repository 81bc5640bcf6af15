"""Values and shapes that differ between shards, in transforms and loaders."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import torch
from tests.kit.small_datasets import array_of, map_of
from tests.unit.compat.spark.converters import IN_ORDER, Read, converter_of, with_either, with_tf

from mdstorm import TransformSpec
from mdstorm.spark import SparkDatasetConverter

NAN = float("nan")
IDENTITY = TransformSpec(lambda frame: frame)
BATCH = {**IN_ORDER, "batch_size": 4, "decimals": "decimal"}


def two_shards(directory: Path, values: list[Any], type_: Any) -> SparkDatasetConverter:
    """Return a converter with four rows of `id` and `x` in two shards."""
    columns = {"id": range(4), "x": values}
    return converter_of(directory / "two", columns, {"id": "long", "x": type_}, tasks=2)


def torch_x(converter: SparkDatasetConverter, spec: TransformSpec, **arguments: Any) -> Any:
    (batch,) = converter.make_torch_dataloader(transform_spec=spec, **BATCH, **arguments)
    return batch["x"]


def plain(values: Any) -> Any:
    if isinstance(values, list):
        return [plain(value) for value in values]
    return values.tolist() if isinstance(values, (torch.Tensor, np.ndarray)) else values


STORED = [
    ("decimal(10,2)", [Decimal("1.25"), Decimal("2.50"), Decimal("123456.75"), None]),
    ("string", [None, None, "a", "b"]),
    ("binary", [None, None, b"a", b"b"]),
    ("date", [None, None, dt.date(2020, 1, 1), dt.date(2021, 1, 1)]),
    ("decimal(10,2)", [None, None, Decimal("1.25"), Decimal("2.50")]),
    (array_of("string"), [None, None, ["a"], []]),
    (array_of("string"), [[], [], ["a\0"], [None]]),
    (array_of("integer"), [[1, 2], [3, 4], [5, 6, 7], [8, 9, 10]]),
    (array_of("integer"), [[], [], [], [1]]),
    ("integer", [None, None, 1, 2]),
    ("float", [None, None, 1.5, 2.5]),
    (array_of("integer"), [[1, None], [2, 3], [4, 5], [6, 7]]),
    ("decimal(10,2)", [Decimal("1.25"), Decimal("2.50"), Decimal("123456.75"), Decimal(0)]),
    (array_of("integer"), [[1], [], [], [2, 3]]),
    (array_of("string"), [[], [], ["a"], []]),
    (array_of("boolean"), [[True], [], [], [False]]),
    (array_of("date"), [[dt.date(1970, 1, 2)], [], [], []]),
    (array_of("timestamp"), [[dt.datetime(1970, 1, 2)], [], [], []]),
]


@pytest.mark.parametrize(("type_", "values"), STORED, ids=str)
def test_identity_transform_keeps_values(tmp_path: Path, type_: Any, values: list[Any]) -> None:
    converter = two_shards(tmp_path, values, type_)
    (batch,) = converter.make_torch_dataloader(**BATCH)
    for spec in (IDENTITY, TransformSpec()):
        found = torch_x(converter, spec)
        assert type(found) is type(batch["x"])
        assert repr(found) == repr(batch["x"])
    if "None" not in str(values):  # TensorFlow cannot represent these nulls
        assert with_tf(converter, transform_spec=IDENTITY, **BATCH) == with_tf(converter, **BATCH)


@pytest.mark.parametrize(
    ("dtype", "null"),
    [(np.bool_, NAN), (np.bool_, None), (np.int64, NAN), (np.str_, None), (np.bytes_, None)],
    ids=str,
)
def test_nulls_returned_by_transform_raise_error_in_tensorflow(
    tmp_path: Path, dtype: Any, null: Any
) -> None:
    converter = two_shards(tmp_path, [1, 2, 3, 4], "long")
    spec = TransformSpec(lambda f: f.assign(x=null), [("x", dtype, (), True)])
    with pytest.raises(tf.errors.OpError, match="column 'x' holds 4 nulls"):
        with_tf(converter, transform_spec=spec, **BATCH)


def test_nulls_in_one_shard_become_nan_alongside_integers_in_another(tmp_path: Path) -> None:
    converter = two_shards(tmp_path, [1, 2, 3, 4], "long")

    def drop_small(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(x=[value if value > 2 else None for value in frame["x"]])

    for edited in ([], [("x", np.int64, (), True)], [("x", object, (), True)]):
        found = torch_x(converter, TransformSpec(drop_small, edited))
        assert repr(found.tolist()) == "[nan, nan, 3.0, 4.0]"


@with_either
def test_transform_that_drops_all_rows_in_a_shard_keeps_matrix_shape(
    tmp_path: Path, read: Read
) -> None:
    converter = two_shards(tmp_path, [1, 2, 3, 4], "long")

    def late(frame: pd.DataFrame) -> pd.DataFrame:
        frame = frame[frame["id"] > 1]
        return frame.assign(x=[np.ones((1, 2))] * len(frame))

    spec = TransformSpec(late, [("x", np.float64, (1, 2), False)])
    (batch,) = read(converter, transform_spec=spec, **BATCH)
    assert batch["x"] == [[[1, 1]], [[1, 1]]]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (map_of("string", "long"), [[("a", 1)], [("b", 2)], [("c", 3)], []]),
        (map_of("string", "long"), [[("a", 1)], None, [("c", 3)], [("d", 4)]]),
        (array_of(array_of("date")), [[[dt.date(2020, 1, 1)]], [[]], [], [[None]]]),
    ],
    ids=str,
)
def test_identity_transform_keeps_selected_nested_columns(
    tmp_path: Path, type_: Any, values: list[Any]
) -> None:
    converter = two_shards(tmp_path, values, type_)
    fields = ["id", "x"]
    (batch,) = converter.make_torch_dataloader(schema_fields=fields, **BATCH)
    assert torch_x(converter, IDENTITY, schema_fields=fields) == batch["x"]


def test_transform_that_makes_arrays_ragged_must_declare_variable_length(tmp_path: Path) -> None:
    converter = two_shards(tmp_path, [[1, 2]] * 4, array_of("long"))

    def cut(frame: pd.DataFrame) -> pd.DataFrame:
        frame["x"] = [cell[: 1 + i] for i, cell in enumerate(frame["x"])]
        return frame

    message = r"column 'x' .*shape \(2,\).* lengths from 1 to 2.*edit_fields, with None"
    with pytest.raises(tf.errors.OpError, match=message):
        with_tf(converter, transform_spec=TransformSpec(cut), **BATCH)
    declared = TransformSpec(cut, [("x", np.int64, (None,), False)])
    (batch,) = with_tf(converter, transform_spec=declared, **BATCH)
    assert batch["x"] == [[1], [1, 2], [1], [1, 2]]
    assert plain(torch_x(converter, declared)) == [[1], [1, 2], [1], [1, 2]]


@pytest.mark.parametrize(
    ("cells", "dtype"), [([[1], [], [2, 3], []], np.int64), ([["a"], [], ["b", "c"], []], np.str_)]
)
def test_new_ragged_arrays_of_declared_variable_length_are_read_in_tensorflow(
    tmp_path: Path, cells: list[Any], dtype: Any
) -> None:
    converter = two_shards(tmp_path, [0, 1, 2, 3], "long")
    spec = TransformSpec(
        lambda frame: frame.assign(y=[cells[n] for n in frame["x"]]), [("y", dtype, (None,), False)]
    )
    made: Any = converter.make_tf_dataset(transform_spec=spec, **BATCH)
    assert isinstance(made.element_spec.y, tf.RaggedTensorSpec)
    (batch,) = made
    expected = tf.ragged.constant(cells, dtype=batch.y.dtype)
    assert batch.y.to_list() == expected.to_list()


def test_declared_variable_length_may_differ_between_batches(tmp_path: Path) -> None:
    converter = two_shards(tmp_path, [[1], [2], [3, 4], [5, 6]], array_of("long"))
    spec = TransformSpec(edit_fields=[("x", np.int64, (None,), False)])
    batches = with_tf(converter, transform_spec=spec, batch_size=2, **IN_ORDER)
    assert [batch["x"] for batch in batches] == [[[1], [2]], [[3, 4], [5, 6]]]


@pytest.mark.parametrize(
    ("stored", "type_", "returned"),
    [
        ([[1, 2]] * 4, array_of("long"), [1, 2]),
        ([1, 2, 3, 4], "long", [[1, 2]] * 2),
        ([[1, 2]] * 4, array_of("long"), [[1, 2, 3]] * 2),
    ],
    ids=["scalars", "arrays", "length"],
)
def test_undeclared_shape_change_by_transform_raises_error_in_tensorflow(
    tmp_path: Path, stored: list[Any], type_: Any, returned: list[Any]
) -> None:
    converter = two_shards(tmp_path, stored, type_)
    spec = TransformSpec(lambda frame: frame.assign(x=returned))
    with pytest.raises(tf.errors.OpError, match=r"column 'x' .* declare its shape in edit_"):
        with_tf(converter, transform_spec=spec, **BATCH)


def test_transform_result_with_undeclared_type_raises_error_in_tensorflow(tmp_path: Path) -> None:
    converter = two_shards(tmp_path, [1, 2, 3, 4], "long")
    for dtype, x in ((np.str_, 1), (np.int64, "a")):
        spec = TransformSpec(lambda frame, x=x: frame.assign(x=x), [("x", dtype, (), False)])
        with pytest.raises(tf.errors.OpError, match=r"column 'x' .* declare its NumPy type"):
            with_tf(converter, transform_spec=spec, **BATCH)


def test_transform_may_return_equal_length_arrays_for_ragged_column(tmp_path: Path) -> None:
    converter = two_shards(tmp_path, [[1], [2, 3], [4], []], array_of("long"))
    spec = TransformSpec(lambda frame: frame.assign(x=[np.arange(2)] * 2))
    (batch,) = with_tf(converter, transform_spec=spec, **BATCH)
    assert batch["x"] == [[0, 1]] * 4


def test_transform_that_pads_does_not_need_declaration_in_pytorch(tmp_path: Path) -> None:
    converter = two_shards(tmp_path, [[1], [2, 3], [], [4, 5, 6]], array_of("long"))

    def pad(frame: pd.DataFrame) -> pd.DataFrame:
        frame["x"] = [np.pad(cell, (0, 3 - len(cell))) for cell in frame["x"]]
        return frame

    with converter.make_torch_dataloader(
        batch_size=3, transform_spec=TransformSpec(pad), **IN_ORDER
    ) as loader:
        batches = [batch["x"].tolist() for batch in loader]
    assert batches == [[[1, 0, 0], [2, 3, 0], [0, 0, 0]], [[4, 5, 6]]]
