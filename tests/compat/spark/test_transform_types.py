"""dtypes and shapes of what a transform returns."""

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import torch
from tests.compat.spark.converters import IN_ORDER, converter_of

from mdstorm import TransformSpec
from mdstorm.errors import InvalidArgumentError
from mdstorm.spark import SparkDatasetConverter

NAN = float("nan")


@pytest.fixture
def two(tmp_path: Path) -> SparkDatasetConverter:
    return converter_of(tmp_path / "two", {"x": [1, 2]}, {"x": "long"})


def returning(values: Any, dtype: Any = np.int64, shape: Any = ()) -> TransformSpec:
    """A transform that replaces `x`."""

    def replace(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"x": values})

    return TransformSpec(replace, edit_fields=[("x", dtype, shape, False)])


def torch_x(converter: SparkDatasetConverter, spec: TransformSpec) -> Any:
    (batch,) = converter.make_torch_dataloader(transform_spec=spec, **IN_ORDER)
    return batch["x"]


def tf_x(converter: SparkDatasetConverter, spec: TransformSpec) -> Any:
    (batch,) = converter.make_tf_dataset(transform_spec=spec, **IN_ORDER)
    return batch.x


@pytest.mark.parametrize(
    ("dtype", "in_torch", "in_tf"),
    [
        (np.bool_, torch.uint8, tf.bool),
        (np.int8, torch.int8, tf.int8),
        (np.int16, torch.int16, tf.int16),
        (np.int32, torch.int32, tf.int32),
        (np.int64, torch.int64, tf.int64),
        (np.uint8, torch.uint8, tf.uint8),
        (np.uint16, torch.int32, tf.int32),
        (np.uint32, torch.int64, tf.int64),
        (np.float16, torch.float16, tf.float16),
        (np.float32, torch.float32, tf.float32),
        (np.float64, torch.float64, tf.float64),
    ],
)
@pytest.mark.parametrize("shape", [(), pytest.param((2, 3), marks=pytest.mark.long)], ids=str)
def test_numpy_types(
    two: SparkDatasetConverter, dtype: Any, in_torch: Any, in_tf: Any, shape: tuple[int, ...]
) -> None:
    cells = np.ones((2, *shape), dtype)
    spec = returning(list(cells) if shape else cells, dtype, shape)
    found = torch_x(two, spec)
    assert (found.dtype, found.shape) == (in_torch, (2, *shape))
    assert found.tolist() == cells.tolist()
    tensor = tf_x(two, spec)
    assert (tensor.dtype, tensor.shape) == (in_tf, (2, *shape))
    assert tensor.numpy().tolist() == cells.tolist()


@pytest.mark.parametrize(
    ("values", "dtype", "in_torch", "in_tf"),
    [
        (["a", "ü"], np.str_, ["a", "ü"], [b"a", "ü".encode()]),
        ([b"a", b"\0"], np.bytes_, [b"a", b"\0"], [b"a", b"\0"]),
        ([Decimal("1.50")] * 2, Decimal, [Decimal("1.50")] * 2, [b"1.50"] * 2),
        ([dt.date(1970, 1, 2)] * 2, np.datetime64, [dt.date(1970, 1, 2)] * 2, [86_400 * 10**9] * 2),
        (
            pd.to_datetime(["1970-01-01 00:00:01", "1970-01-01 00:00:00"]),
            np.datetime64,
            [10**9, 0],
            [10**9, 0],
        ),
        (
            pd.to_datetime(["1970-01-01 00:00:01+01:00"] * 2),
            np.datetime64,
            [-3599 * 10**9] * 2,
            [-3599 * 10**9] * 2,
        ),
        (pd.Categorical(["b", "a"]), np.str_, ["b", "a"], [b"b", b"a"]),
        (pd.Categorical([7, 5]), np.int64, [7, 5], [7, 5]),
        (pd.array([1, 2], "Int64"), np.int64, [1, 2], [1, 2]),
        (pd.array([True, False], "boolean"), np.bool_, [1, 0], [True, False]),
        (pd.array(["a", "b"], "string"), np.str_, ["a", "b"], [b"a", b"b"]),
        (pd.Series([1, 2], dtype=object), np.int64, [1, 2], [1, 2]),
        ([[1, 2], [3, 4]], np.int64, [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ([(1, 2), (3, 4)], np.int64, [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    ],
    ids=[
        "str",
        "bytes",
        "decimal",
        "date",
        "timestamp",
        "with time zone",
        "categories",
        "categories of numbers",
        "Int64",
        "boolean",
        "string",
        "object",
        "lists",
        "tuples",
    ],
)
def test_what_pandas_holds(
    two: SparkDatasetConverter, values: Any, dtype: Any, in_torch: list[Any], in_tf: list[Any]
) -> None:
    shape = (None,) if isinstance(in_tf[0], list) else ()
    found = torch_x(two, returning(values, dtype, shape))
    assert (found.tolist() if isinstance(found, torch.Tensor) else found) == in_torch
    assert tf_x(two, returning(values, dtype, shape)).numpy().tolist() == in_tf


@pytest.mark.parametrize(
    "values",
    [pd.array([1, None], "Int64"), [1.0, NAN], pd.Series([1, None], dtype=object)],
    ids=["Int64", "float", "object"],
)
def test_missing_numbers_become_nan_in_pytorch_and_an_error_in_tensorflow(
    two: SparkDatasetConverter, values: Any
) -> None:
    found = torch_x(two, returning(values))
    assert found.dtype == torch.float64
    assert repr(found.tolist()) == repr([1.0, NAN])
    with pytest.raises(tf.errors.OpError, match="column 'x' holds 1 null"):
        tf_x(two, returning(values))


def test_an_undeclared_change_is_cast_to_the_stored_type_in_tensorflow(
    two: SparkDatasetConverter,
) -> None:
    spec = TransformSpec(lambda frame: frame / 2)
    assert torch_x(two, spec).tolist() == [0.5, 1.0]
    assert tf_x(two, spec).numpy().tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [object(), "no such type"], ids=["object", "text"])
def test_a_type_that_is_none_is_refused(two: SparkDatasetConverter, dtype: Any) -> None:
    spec = returning([1, 2], dtype)
    with pytest.raises(InvalidArgumentError, match="Unknown mapping of numpy"):
        two.make_tf_dataset(transform_spec=spec)
