"""Programs as people wrote them for Petastorm, with the imports renamed."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import torch
from pyspark.sql import DataFrame, SparkSession

from mdstorm import TransformSpec
from mdstorm.spark import SparkDatasetConverter, make_spark_converter


@pytest.fixture
def df(spark: SparkSession, cache_dir: Path) -> DataFrame:
    """Ten rows in one partition, which become one shard and keep their order."""
    return spark.range(10).coalesce(1).selectExpr("id", "id / 2 AS half", "concat('#', id) AS name")


def rows(first: int, last: int) -> dict[str, list[Any]]:
    """Rows of two epochs on end, as a batch."""
    ids = [i % 10 for i in range(first, last)]
    return {"id": ids, "half": [i / 2 for i in ids], "name": [f"#{i}" for i in ids]}


def test_torch_program_gets_these_batches(df: DataFrame, cache_dir: Path) -> None:
    converter = make_spark_converter(df)
    with converter.make_torch_dataloader(batch_size=4, num_epochs=2) as loader:
        batches = list(loader)
    converter.delete()

    found = [
        {"id": b["id"].tolist(), "half": b["half"].tolist(), "name": b["name"]} for b in batches
    ]
    # Batches span epochs.
    assert found == [rows(start, start + 4) for start in range(0, 20, 4)]
    assert {(b["id"].dtype, b["half"].dtype) for b in batches} == {(torch.int64, torch.float32)}
    assert list(batches[0]) == ["id", "half", "name"]
    assert list(cache_dir.iterdir()) == []


def test_tensorflow_program_gets_these_batches(df: DataFrame, cache_dir: Path) -> None:
    converter = make_spark_converter(df)
    with converter.make_tf_dataset(batch_size=4, num_epochs=2) as dataset:
        batches = list(dataset)
    converter.delete()

    found = [
        {
            "id": batch.id.numpy().tolist(),
            "half": batch.half.numpy().tolist(),
            "name": [name.decode() for name in batch.name.numpy()],
        }
        for batch in batches
    ]
    assert found == [rows(start, start + 4) for start in range(0, 20, 4)]
    assert {(b.id.dtype, b.half.dtype) for b in batches} == {(tf.int64, tf.float32)}
    assert batches[0]._fields == ("id", "half", "name")
    assert list(cache_dir.iterdir()) == []


def test_tensorflow_graph_program_gets_these_batches(df: DataFrame) -> None:
    converter = make_spark_converter(df)
    with (
        tf.Graph().as_default(),
        converter.make_tf_dataset(batch_size=4, num_epochs=1) as dataset,
        tf.compat.v1.Session() as session,
    ):
        batch = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
        found = [session.run(batch).id.tolist() for _ in range(3)]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(batch)
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_every_row_is_on_exactly_one_rank(df: DataFrame) -> None:
    converter = pickle.loads(pickle.dumps(make_spark_converter(df)))  # noqa: S301
    ranks = []
    for rank in range(3):
        with converter.make_torch_dataloader(
            batch_size=2, num_epochs=1, cur_shard=rank, shard_count=3
        ) as loader:
            ranks.append([batch["id"].tolist() for batch in loader])
    # As many batches on every rank, though one has a row more.
    assert ranks == [[[0, 1], [2]], [[3, 4], [5]], [[6, 7], [8, 9]]]


def test_transform_decides_what_the_program_gets(df: DataFrame) -> None:
    def only_even(frame: Any) -> Any:
        frame = frame[frame["id"] % 2 == 0]
        return frame.assign(vector=[np.array([i, -i], np.float32) for i in frame["id"]])

    spec = TransformSpec(
        only_even,
        edit_fields=[("vector", np.float32, (2,), False)],
        removed_fields=["id", "half"],
    )
    converter = make_spark_converter(df)
    with converter.make_torch_dataloader(num_epochs=1, transform_spec=spec) as loader:
        (batch,) = loader
    assert batch["vector"].tolist() == [[i, -i] for i in range(0, 10, 2)]
    assert batch["name"] == ["#0", "#2", "#4", "#6", "#8"]
    with converter.make_tf_dataset(num_epochs=1, transform_spec=spec) as dataset:
        (tensors,) = dataset
    np.testing.assert_array_equal(tensors.vector, batch["vector"])


def test_equal_frames_are_converted_once(spark: SparkSession, cache_dir: Path) -> None:
    first = make_spark_converter(spark.range(5))
    assert make_spark_converter(spark.range(5)).cache_dir_url == first.cache_dir_url
    assert make_spark_converter(spark.range(6)).cache_dir_url != first.cache_dir_url
    assert len(list(cache_dir.iterdir())) == 2
    assert SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF.startswith("petastorm.")
