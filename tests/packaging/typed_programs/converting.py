"""A converter, and the types of its loaders' batches."""

from typing import Any

import torch
from pyspark.sql import DataFrame, SparkSession
from typing_extensions import assert_type

from mdstorm import TransformSpec
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import StreamingDataLoader

Steps = list[torch.Tensor]


def convert(spark: SparkSession, df: DataFrame) -> SparkDatasetConverter:
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, "file:///tmp/cache")
    converter = make_spark_converter(df, dtype="float32", compression_codec="zstd")
    print(len(converter), converter.cache_dir_url, converter.file_urls)
    return converter


def train_torch(converter: SparkDatasetConverter) -> Steps:
    losses: Steps = []
    spec = TransformSpec(lambda frame: frame, removed_fields=["id"], keeps_rows=True)
    with converter.make_torch_dataloader(
        batch_size=64, num_epochs=1, cur_shard="auto", shard_count="auto", transform_spec=spec
    ) as loader:
        for batch in loader:
            inputs, labels = batch["features"].float(), batch["label"].to("cuda")
            losses.append((inputs.mean(dim=1) - labels).abs().mean())
    print(loader.statistics())
    loader.load_state_dict(loader.state_dict(), skip_batches=2)
    print(loader.trace().rows(3, rank=1).tolist(), loader.trace().where(7).batch)
    return losses


def train_tuples(converter: SparkDatasetConverter, columns: list[str]) -> None:
    for x in converter.make_torch_dataloader(features="x", num_epochs=1):
        print(x.shape)
    for named in converter.make_torch_dataloader(features=columns, num_epochs=1):
        print(named["x"].shape)
    for x, y in converter.make_torch_dataloader(features="x", labels="y", num_epochs=1):
        print(x.shape, y.shape)
    for x, y, weight in converter.make_torch_dataloader(labels="y", sample_weights="w"):
        print(x.keys(), y.shape, weight.shape)
    mapped = converter.make_torch_dataloader(batch_map=lambda batch: batch["x"].sum())
    assert_type(mapped, StreamingDataLoader[torch.Tensor | Any])


def train_keras(converter: SparkDatasetConverter, model: Any) -> None:
    with converter.make_tf_dataset(batch_size=32, num_epochs=1) as dataset:
        for row in dataset:
            print(row.label, row._asdict())
        shuffled = dataset.map(lambda row: (row.x, row.label)).prefetch(2).unbatch()
        model.fit(shuffled)
        dataset.load_state_dict(dataset.state_dict(), skip_batches=2)
        print(dataset.trace().rows(3))
    for x, y in converter.make_tf_dataset(features=["a", "b"], labels="y"):
        print(x["a"], y)
    for named in converter.make_tf_dataset(features=["a", "b"]):
        print(named["a"])


def loader_of_my_own(reader: Any, batch_size: int, shuffling_queue_capacity: int) -> Steps:
    return [torch.zeros(batch_size)]


def train_own(converter: SparkDatasetConverter) -> None:
    with converter.make_torch_dataloader(data_loader_fn=loader_of_my_own) as steps:
        assert_type(steps, Steps)


def annotated(loader: StreamingDataLoader) -> None:
    for batch in loader:
        print(batch)


def pass_on(converter: SparkDatasetConverter) -> None:
    annotated(converter.make_torch_dataloader())
    annotated(converter.make_torch_dataloader(features="x"))
    converter.delete()
