"""Transforms with ``keeps_rows=True``, whose rows are numbered as if there were no function."""

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tensorflow as tf
from tests.kit.readers import row_reader, write_parquet
from tests.unit.compat.spark.converters import IN_ORDER, Read, with_either

from mdstorm import TransformSpec
from mdstorm.errors import StateMismatchError, TransformError
from mdstorm.spark import SparkDatasetConverter

#: TensorFlow's errors keep only the message of the cause.
ERRORS = (TransformError, tf.errors.OpError)


def negate(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(number=-frame["number"])


@with_either
def test_batches_are_those_of_the_same_loader_without_function(
    small_shards: SparkDatasetConverter, read: Read
) -> None:
    arguments = {"batch_size": 8, "num_epochs": 2, "seed": 4}
    plain = read(small_shards, **arguments)
    kept = read(small_shards, transform_spec=TransformSpec(negate, keeps_rows=True), **arguments)
    assert [[-n for n in batch["number"]] for batch in kept] == [b["number"] for b in plain]


def test_row_function_keeps_rows_without_argument(tmp_path: Path) -> None:
    url = write_parquet(tmp_path, {"number": range(20)})
    for more in ({}, {"keeps_rows": True}):
        spec = TransformSpec(lambda row: {"number": row["number"] + 1}, **more)
        assert [row.number for row in row_reader(url, transform_spec=spec)] == [*range(1, 21)]


@pytest.mark.matrix
@with_either
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda frame: frame[1:], "returned 9 rows for 10"),
        (lambda frame: frame.drop(index=[3], inplace=True) or frame, "returned 9 rows for 10"),
        (lambda frame: pd.concat([frame, frame]), "returned 20 rows for 10"),
        (lambda frame: frame[:0], "returned 0 rows for 10"),
        (lambda frame: frame[::-1], "moved rows: row 0 of its result has the index 9"),
        (
            lambda frame: frame.sort_values("number", ascending=False),
            r"the same rows in the same order.*A new index \(reset_index, ignore_index=True\)",
        ),
        (lambda frame: frame.iloc[[0, 0, *range(2, 10)]], "row 1 of its result has the index 0"),
    ],
    ids=["dropped", "in place", "added", "none", "reversed", "sorted", "repeated"],
)
def test_function_that_does_not_keep_rows_raises_error_before_any_batch(
    ten: SparkDatasetConverter, read: Read, function: Any, message: str
) -> None:
    spec = TransformSpec(function, keeps_rows=True)
    with pytest.raises(ERRORS, match=message):
        read(ten, transform_spec=spec, batch_size=10, **IN_ORDER)


@with_either
@pytest.mark.parametrize(
    "function",
    [
        lambda frame: frame.set_axis([*"abcdefghij"][: len(frame)]),
        lambda frame: frame[::-1].reset_index(drop=True)[::-1].reset_index(drop=True),
        lambda frame: frame.sort_values("number", ignore_index=True),
    ],
    ids=["other", "reset", "ignored"],
)
def test_result_with_an_index_of_its_own_keeps_its_rows(
    ten: SparkDatasetConverter, read: Read, function: Any
) -> None:
    spec = TransformSpec(function, keeps_rows=True)
    (batch,) = read(ten, transform_spec=spec, batch_size=10, **IN_ORDER)
    assert batch["number"] == [*range(10)]


def test_state_of_function_that_may_drop_rows_is_refused(ten: SparkDatasetConverter) -> None:
    arguments: dict[str, Any] = {"batch_size": 2, **IN_ORDER}
    dropping = ten.make_torch_dataloader(transform_spec=TransformSpec(negate), **arguments)
    batches = iter(dropping)
    for _ in range(2):
        next(batches)
    keeping = TransformSpec(negate, keeps_rows=True)
    loader = ten.make_torch_dataloader(transform_spec=keeping, **arguments)
    with pytest.raises(StateMismatchError, match="without keeps_rows"):
        loader.load_state_dict(dropping.state_dict())


@pytest.mark.parametrize("epochs", [1, None])
def test_loader_without_length_is_true(ten: SparkDatasetConverter, epochs: int | None) -> None:
    spec = TransformSpec(negate)
    assert ten.make_torch_dataloader(num_epochs=epochs, transform_spec=spec)
    assert ten.make_torch_dataloader(num_epochs=epochs)


def test_spec_pickled_before_the_argument_existed_may_drop_rows() -> None:
    spec = TransformSpec(negate)
    del spec.keeps_rows
    assert pickle.loads(pickle.dumps(spec)).keeps_rows is False  # noqa: S301


def test_text_instead_of_flag_raises_error() -> None:
    with pytest.raises(TypeError, match="keeps_rows must be True or False, found 'False'"):
        TransformSpec(negate, keeps_rows="False")  # type: ignore[arg-type]
