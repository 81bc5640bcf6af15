"""A `TransformSpec` at work: what the function sees, and what may come out of it."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import torch
from tests.compat.spark.converters import IN_ORDER, Read, converter_of, with_either, with_torch

from mdstorm import TransformSpec
from mdstorm.errors import TransformError
from mdstorm.spark import SparkDatasetConverter

INT, FLOAT = ("number", np.int64, (), False), ("half", np.float32, (), False)
#: The function fails inside of TensorFlow, whose errors keep the text alone.
ERRORS = (TransformError, ZeroDivisionError, tf.errors.OpError)


def double(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(number=frame["number"] * 2)


def numbers(converter: SparkDatasetConverter, read: Read, spec: TransformSpec, **more: Any) -> Any:
    batches = read(converter, transform_spec=spec, **{**IN_ORDER, "batch_size": 4, **more})
    return [batch["number"] for batch in batches]


@with_either
def test_values_may_change(ten: SparkDatasetConverter, read: Read) -> None:
    found = numbers(ten, read, TransformSpec(double))
    assert found == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18]]


@with_either
def test_rows_may_become_fewer_and_batches_stay_full(
    ten: SparkDatasetConverter, read: Read
) -> None:
    odd = TransformSpec(lambda frame: frame[frame["number"] % 2 == 1])
    assert numbers(ten, read, odd) == [[1, 3, 5, 7], [9]]


@with_either
def test_rows_may_become_more(ten: SparkDatasetConverter, read: Read) -> None:
    twice = TransformSpec(lambda frame: frame.loc[frame.index.repeat(2)])
    found = numbers(ten, read, twice, batch_size=8)
    assert found == [[0, 0, 1, 1, 2, 2, 3, 3], [4, 4, 5, 5, 6, 6, 7, 7], [8, 8, 9, 9]]


@with_either
def test_a_shard_may_lose_all_rows(ten: SparkDatasetConverter, read: Read) -> None:
    late = TransformSpec(lambda frame: frame[frame["number"] >= 5])
    assert numbers(ten, read, late, num_epochs=2) == [[5, 6, 7, 8], [9, 5, 6, 7], [8, 9]]


@with_either
def test_all_rows_lost_is_an_empty_stream_and_a_warning(
    ten: SparkDatasetConverter, read: Read
) -> None:
    with pytest.warns(UserWarning, match="No matching data is available"):
        assert (
            numbers(ten, read, TransformSpec(lambda frame: frame.iloc[:0]), num_epochs=None) == []
        )


@with_either
def test_shuffling_comes_after_the_transform(ten: SparkDatasetConverter, read: Read) -> None:
    spec = TransformSpec(double)
    (found,) = numbers(ten, read, spec, batch_size=10, shuffling_queue_capacity=10, seed=3)
    assert found != sorted(found)
    assert sorted(found) == list(range(0, 20, 2))


@with_either
def test_edited_columns_are_added_at_the_end(ten: SparkDatasetConverter, read: Read) -> None:
    spec = TransformSpec(lambda f: f.assign(half=f["number"] / 2), edit_fields=[FLOAT])
    (batch,) = read(ten, transform_spec=spec, batch_size=10, **IN_ORDER)
    assert list(batch) == ["number", "half"]
    assert batch["half"] == [i / 2 for i in range(10)]


@with_either
@pytest.mark.parametrize("keep", [True, False], ids=["left to us", "dropped by the function"])
def test_removed_columns_are_gone(ten: SparkDatasetConverter, read: Read, keep: bool) -> None:
    def halve(frame: pd.DataFrame) -> pd.DataFrame:
        frame["half"] = frame["number"] / 2
        return frame if keep else frame.drop(columns="number")

    spec = TransformSpec(halve, edit_fields=[FLOAT], removed_fields=["number"])
    (batch,) = read(ten, transform_spec=spec, batch_size=10, **IN_ORDER)
    assert batch == {"half": [i / 2 for i in range(10)]}


@pytest.fixture
def abc(tmp_path: Path) -> SparkDatasetConverter:
    columns = {"a": [1, 2], "b": [3, 4], "c": [5, 6]}
    return converter_of(tmp_path / "abc", columns, dict.fromkeys(columns, "long"))


@with_either
@pytest.mark.parametrize(
    ("arguments", "columns"),
    [
        ({"removed_fields": ["b"]}, ["a", "c"]),
        ({"selected_fields": ["c", "a"]}, ["c", "a"]),
        ({}, ["a", "b", "c"]),
    ],
    ids=["removed", "selected", "neither"],
)
def test_no_function_is_needed_to_choose_columns(
    abc: SparkDatasetConverter, read: Read, arguments: dict[str, Any], columns: list[str]
) -> None:
    (batch,) = read(abc, transform_spec=TransformSpec(**arguments), **IN_ORDER)
    assert list(batch) == columns
    assert batch["a"] == [1, 2]


@with_either
def test_the_function_selects_what_it_says(abc: SparkDatasetConverter, read: Read) -> None:
    spec = TransformSpec(lambda frame: frame[["a", "c"]], selected_fields=["c", "a"])
    (batch,) = read(abc, transform_spec=spec, **IN_ORDER)
    assert batch == {"c": [5, 6], "a": [1, 2]}


@with_either
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("removed_fields", "remove_fields specified some field names that are not part"),
        ("selected_fields", "selected_fields specified some field names that are not part"),
    ],
)
def test_unknown_names_are_ignored_with_a_warning(
    abc: SparkDatasetConverter, read: Read, argument: str, message: str
) -> None:
    spec = TransformSpec(**{argument: ["b", "unknown"]})
    with pytest.warns(UserWarning, match=f"{message}.*: unknown$"):
        read(abc, transform_spec=spec, **IN_ORDER)


@with_either
@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda frame: frame.assign(extra=1), {}),
        (lambda frame: frame.drop(columns="a"), {}),
        (lambda frame: frame, {"edit_fields": [FLOAT]}),
        (lambda frame: frame, {"selected_fields": ["a"]}),
        (lambda frame: frame.rename(columns={"a": "A"}), {"removed_fields": ["b"]}),
    ],
    ids=["extra", "missing", "promised", "not selected", "renamed"],
)
def test_other_columns_than_declared_are_an_error(
    abc: SparkDatasetConverter, read: Read, function: Any, arguments: dict[str, Any]
) -> None:
    with pytest.raises(ERRORS, match="do not match required schema columns"):
        read(abc, transform_spec=TransformSpec(function, **arguments), **IN_ORDER)


@with_either
def test_a_function_that_returns_nothing_is_an_error(
    abc: SparkDatasetConverter, read: Read
) -> None:
    with pytest.raises(ERRORS, match="returned NoneType, not a pandas DataFrame"):
        read(abc, transform_spec=TransformSpec(lambda frame: None), **IN_ORDER)


@with_either
def test_an_error_of_the_function_comes_out(abc: SparkDatasetConverter, read: Read) -> None:
    with pytest.raises(ERRORS, match="by zero"):
        read(abc, transform_spec=TransformSpec(lambda frame: 1 // 0), **IN_ORDER)


def test_pytorch_raises_the_error_itself(abc: SparkDatasetConverter) -> None:
    with pytest.raises(ZeroDivisionError):
        with_torch(abc, transform_spec=TransformSpec(lambda frame: 1 // 0), **IN_ORDER)
    with pytest.raises(ValueError, match="do not match required schema columns"):
        with_torch(abc, transform_spec=TransformSpec(lambda frame: frame[["a"]]), **IN_ORDER)


def test_the_namedtuple_says_that_it_is_transformed(abc: SparkDatasetConverter) -> None:
    (batch,) = abc.make_tf_dataset(transform_spec=TransformSpec(), **IN_ORDER)
    assert type(batch).__name__ == "inferred_schema_transformed_view"


def test_a_transformed_loader_has_no_length(ten: SparkDatasetConverter) -> None:
    loader = ten.make_torch_dataloader(transform_spec=TransformSpec(double), num_epochs=1)
    with pytest.raises(TypeError, match="a transform may drop rows"):
        len(loader)


def test_a_state_continues_within_a_transformed_shard(ten: SparkDatasetConverter) -> None:
    spec = TransformSpec(lambda frame: frame[frame["number"] % 3 != 0])
    arguments: dict[str, Any] = {**IN_ORDER, "batch_size": 2, "transform_spec": spec}
    first = ten.make_torch_dataloader(**arguments)
    assert next(iter(first))["number"].tolist() == [1, 2]
    second = ten.make_torch_dataloader(**arguments)
    second.load_state_dict(first.state_dict())
    assert torch.cat([batch["number"] for batch in second]).tolist() == [4, 5, 7, 8]


@with_either
def test_a_transform_runs_in_processes_where_asked_for(
    ten: SparkDatasetConverter, read: Read
) -> None:
    spec = TransformSpec(lambda frame: frame.assign(number=os.getpid()))
    batches = read(ten, transform_spec=spec, reader_pool_type="process", **IN_ORDER)
    assert os.getpid() not in {pid for batch in batches for pid in batch["number"]}
