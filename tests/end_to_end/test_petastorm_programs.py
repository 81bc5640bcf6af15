"""Programs as people wrote them for Petastorm, with the imports renamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import torch
from pyspark.sql import DataFrame, SparkSession

from mdstorm.spark import make_spark_converter


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
