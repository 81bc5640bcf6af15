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


def test_an_empty_batch_of_the_elastic_order_has_tensors(ten: SparkDatasetConverter) -> None:
    loader = ten.make_torch_dataloader(
        batch_size=5,
        order="elastic",
        filters=[("number", ">=", 5)],
        transform_spec=TransformSpec(double),
        **IN_ORDER,
    )
    assert [(b["number"].dtype, len(b["number"])) for b in loader] == [
        (torch.int64, 0),
        (torch.int64, 5),
    ]


@with_either
def test_shuffling_comes_after_the_transform(ten: SparkDatasetConverter, read: Read) -> None:
    spec = TransformSpec(double)
    (found,) = numbers(ten, read, spec, batch_size=10, shuffling_queue_capacity=10, seed=3)
    assert found != sorted(found)
    assert sorted(found) == list(range(0, 20, 2))


@pytest.fixture
def abc(tmp_path: Path) -> SparkDatasetConverter:
    columns = {"a": [1, 2], "b": [3, 4], "c": [5, 6]}
    return converter_of(tmp_path / "abc", columns, dict.fromkeys(columns, "long"))


@with_either
@pytest.mark.parametrize(
    ("function", "arguments", "remedy"),
    [
        (lambda frame: frame.assign(extra=1), {}, "declare what"),
        (lambda frame: frame.drop(columns="a"), {}, "declare what"),
        (lambda frame: frame, {"edit_fields": [FLOAT]}, "declare what"),
        (lambda frame: frame, {"selected_fields": ["a"]}, "return the selected_fields alone"),
        (lambda frame: frame.rename(columns={"a": "A"}), {"removed_fields": ["b"]}, "declare what"),
    ],
    ids=["extra", "missing", "promised", "not selected", "renamed"],
)
def test_other_columns_than_declared_are_an_error(
    abc: SparkDatasetConverter, read: Read, function: Any, arguments: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(ERRORS, match=f"do not match required schema columns.*: {remedy}"):
        read(abc, transform_spec=TransformSpec(function, **arguments), **IN_ORDER)


@pytest.mark.parametrize(("whole", "rows"), [({}, 3), ({"transform_whole_shards": True}, 9)])
@with_either
def test_a_function_gets_slices_of_a_large_shard(
    tmp_path: Path, read: Read, whole: dict[str, Any], rows: int
) -> None:
    files = [bytes(1 << 20)] * 9
    converter = converter_of(
        tmp_path,
        {"number": range(9), "file": files},
        {"number": "long", "file": "binary"},
        shard_size=32 << 20,
    )
    spec = TransformSpec(lambda frame: frame.assign(number=len(frame)), removed_fields=["file"])
    found = numbers(converter, read, spec, **whole)
    assert max(number for batch in found for number in batch) == rows


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


def test_a_transform_runs_in_processes_where_asked_for(ten: SparkDatasetConverter) -> None:
    spec = TransformSpec(lambda frame: frame.assign(number=os.getpid()))
    batches = with_torch(ten, transform_spec=spec, reader_pool_type="process", **IN_ORDER)
    assert os.getpid() not in {pid for batch in batches for pid in batch["number"]}
