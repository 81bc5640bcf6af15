"""A `TransformSpec` in a loader: the function's input and its permitted output."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import torch
from tests.unit.compat.spark.converters import IN_ORDER, Read, converter_of, with_either

from mdstorm import TransformSpec
from mdstorm.errors import TransformError
from mdstorm.spark import SparkDatasetConverter

FLOAT = ("half", np.float32, (), False)
#: Errors raised for a failing function. TensorFlow's errors keep only the message of the cause.
ERRORS = (TransformError, ZeroDivisionError, tf.errors.OpError)


def numbers(converter: SparkDatasetConverter, read: Read, spec: TransformSpec, **more: Any) -> Any:
    batches = read(converter, transform_spec=spec, **{**IN_ORDER, "batch_size": 4, **more})
    return [batch["number"] for batch in batches]


@pytest.fixture
def abc(tmp_path: Path) -> SparkDatasetConverter:
    columns = {"a": [1, 2], "b": [3, 4], "c": [5, 6]}
    return converter_of(tmp_path / "abc", columns, dict.fromkeys(columns, "long"))


@pytest.mark.matrix
@with_either
@pytest.mark.parametrize(
    ("function", "arguments", "remedy"),
    [
        (lambda frame: frame.assign(extra=1), {}, "declare what"),
        (lambda frame: frame.drop(columns="a"), {}, "declare what"),
        (lambda frame: frame, {"edit_fields": [FLOAT]}, "declare what"),
        (lambda frame: frame, {"selected_fields": ["a"]}, "return only the selected_fields"),
        (lambda frame: frame.rename(columns={"a": "A"}), {"removed_fields": ["b"]}, "declare what"),
    ],
    ids=["extra", "missing", "promised", "not selected", "renamed"],
)
def test_transform_result_with_undeclared_columns_raises_error(
    abc: SparkDatasetConverter, read: Read, function: Any, arguments: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ERRORS, match=f"do not match required schema columns.*: {remedy}"):
        read(abc, transform_spec=TransformSpec(function, **arguments), **IN_ORDER)


@pytest.mark.parametrize(("whole", "rows"), [({}, 3), ({"transform_whole_shards": True}, 9)])
@with_either
def test_transform_gets_slices_of_a_large_shard_unless_whole_shards_are_requested(
    tmp_path: Path, read: Read, whole: dict[str, Any], rows: int
) -> None:
    columns, fields = {"number": range(9), "file": [bytes(1 << 20)] * 9}, {"number": "long"}
    converter = converter_of(tmp_path, columns, fields | {"file": "binary"}, shard_size=32 << 20)
    spec = TransformSpec(lambda frame: frame.assign(number=len(frame)), removed_fields=["file"])
    found = numbers(converter, read, spec, **whole)
    assert max(number for batch in found for number in batch) == rows


NAN = float("nan")


@pytest.fixture
def two(tmp_path: Path) -> SparkDatasetConverter:
    return converter_of(tmp_path / "two", {"x": [1, 2]}, {"x": "long"})


def returning(
    values: Any, dtype: Any = np.int64, shape: Any = (), **more: tuple[Any, Any, Any]
) -> TransformSpec:
    """Return a transform that replaces `x` and adds columns given as values, dtype and shape."""
    columns = {"x": (values, dtype, shape), **more}

    def replace(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({name: values for name, (values, *_) in columns.items()})

    edited = [(name, *declared, False) for name, (_, *declared) in columns.items()]
    return TransformSpec(replace, edit_fields=edited)


def torch_batch(converter: SparkDatasetConverter, spec: TransformSpec) -> Any:
    (batch,) = converter.make_torch_dataloader(transform_spec=spec, **IN_ORDER)
    return batch


def tf_batch(converter: SparkDatasetConverter, spec: TransformSpec) -> Any:
    (batch,) = converter.make_tf_dataset(transform_spec=spec, **IN_ORDER)
    return batch


DAY, SECOND = 86_400 * 10**9, 10**9
#: The function's return value, the declared type, and the values in PyTorch and TensorFlow.
RETURNED: dict[str, tuple[Any, Any, list[Any], list[Any]]] = {
    "str": (["a", "ü"], np.str_, ["a", "ü"], [b"a", "ü".encode()]),
    "bytes": ([b"a", b"\0"], np.bytes_, [b"a", b"\0"], [b"a", b"\0"]),
    "decimal": ([Decimal("1.50")] * 2, Decimal, [Decimal("1.50")] * 2, [b"1.50"] * 2),
    "date": ([dt.date(1970, 1, 2)] * 2, np.datetime64, [dt.date(1970, 1, 2)] * 2, [DAY] * 2),
    "timestamp": (
        pd.to_datetime(["1970-01-01 00:00:01", "1970-01-01 00:00:00"]),
        np.datetime64,
        *([SECOND, 0], [SECOND, 0]),
    ),
    "with_time_zone": (
        pd.to_datetime(["1970-01-01 00:00:01+01:00"] * 2),
        np.datetime64,
        *([-3599 * SECOND] * 2, [-3599 * SECOND] * 2),
    ),
    "categories": (pd.Categorical(["b", "a"]), np.str_, ["b", "a"], [b"b", b"a"]),
    "categories_of_numbers": (pd.Categorical([7, 5]), np.int64, [7, 5], [7, 5]),
    "Int64": (pd.array([1, 2], "Int64"), np.int64, [1, 2], [1, 2]),
    "boolean": (pd.array([True, False], "boolean"), np.bool_, [1, 0], [True, False]),
    "string": (pd.array(["a", "b"], "string"), np.str_, ["a", "b"], [b"a", b"b"]),
    "object": (pd.Series([1, 2], dtype=object), np.int64, [1, 2], [1, 2]),
    "lists": ([[1, 2], [3, 4]], np.int64, [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    "tuples": ([(1, 2), (3, 4)], np.int64, [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
}


def test_transform_results_with_pandas_types_are_accepted(two: SparkDatasetConverter) -> None:
    more = {
        name: (values, dtype, (None,) if isinstance(in_tf[0], list) else ())
        for name, (values, dtype, _, in_tf) in RETURNED.items()
    }
    spec = returning([1, 2], **more)
    in_torch, in_tf = torch_batch(two, spec), tf_batch(two, spec)
    for name, (*_, torch_values, tf_values) in RETURNED.items():
        found = in_torch[name]
        assert (found.tolist() if isinstance(found, torch.Tensor) else found) == torch_values, name
        assert getattr(in_tf, name).numpy().tolist() == tf_values, name


@pytest.mark.parametrize(
    "values",
    [pd.array([1, None], "Int64"), [1.0, NAN], pd.Series([1, None], dtype=object)],
    ids=["Int64", "float", "object"],
)
def test_missing_numbers_from_transform_are_nan_in_pytorch_and_error_in_tensorflow(
    two: SparkDatasetConverter, values: Any
) -> None:
    found = torch_batch(two, returning(values))["x"]
    assert found.dtype == torch.float64
    assert repr(found.tolist()) == repr([1.0, NAN])
    with pytest.raises(tf.errors.OpError, match="column 'x' holds 1 null"):
        tf_batch(two, returning(values))


def test_undeclared_dtype_is_cast_to_stored_type_in_tensorflow(
    two: SparkDatasetConverter,
) -> None:
    spec = TransformSpec(lambda frame: frame / 2)
    assert torch_batch(two, spec)["x"].tolist() == [0.5, 1.0]
    assert tf_batch(two, spec).x.numpy().tolist() == [0, 1]


@pytest.mark.matrix
@with_either
@pytest.mark.parametrize("shape", [(3,), (None,), (2, 2)], ids=str)
def test_batches_without_rows_have_the_declared_columns(
    tmp_path: Path, read: Read, shape: tuple[int | None, ...]
) -> None:
    """In the elastic order, filters may leave a batch without rows."""
    made = converter_of(tmp_path, {"n": range(6)}, {"n": "long"})

    def add(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(added=[np.full([size or 3 for size in shape], n) for n in frame["n"]])

    spec = TransformSpec(add, edit_fields=[("added", np.int64, shape, False)])
    arguments = {**IN_ORDER, "batch_size": 3, "order": "elastic", "filters": [("n", "<", 2)]}
    batches = read(made, transform_spec=spec, **arguments)
    assert [batch["n"] for batch in batches] == [[0, 1], []]
    assert batches[1]["added"] == []
    *_, last = made.make_torch_dataloader(transform_spec=spec, **arguments)
    assert last["added"].shape == (0, *(size or 0 for size in shape))
