"""Readers and their loaders, schemas, datasets with a schema, and migration."""

from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType
from typing_extensions import assert_type

from mdstorm import NoDataAvailableError, TransformSpec, make_batch_reader, make_reader
from mdstorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec
from mdstorm.etl.dataset_metadata import materialize_dataset
from mdstorm.ngram import NGram
from mdstorm.predicates import in_lambda, in_set
from mdstorm.pytorch import BatchedDataLoader, DataLoader, InMemBatchedDataLoader
from mdstorm.reader import Reader
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from mdstorm.weighted_sampling_reader import WeightedSamplingReader
from mdstorm_migrate import Result, migrate


def double(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "x": row["x"] * 2}


def rows(url: str) -> list[npt.NDArray[np.float32]]:
    spec = TransformSpec(
        double,
        edit_fields=[("x", np.float32, (), False), UnischemaField("y", np.int64, (), None, False)],
    )
    found: list[npt.NDArray[np.float32]] = []
    try:
        with make_reader(url, transform_spec=spec, predicate=in_set({1, 2}, "id")) as reader:
            for row in reader:
                found.append(row.x)
                print(row[0], row._fields, row._asdict()["x"])
            print(next(reader).id, reader.schema.fields["x"].numpy_dtype)
    except NoDataAvailableError as error:
        print(error)
    return found


def ngrams(url: str) -> None:
    ngram = NGram({0: ["x"], 1: ["x"]}, delta_threshold=5, timestamp_field="t")
    with make_reader(url, schema_fields=ngram) as reader:
        for window in reader:
            print(window[0].x, window.items())


def loaders(url: str) -> None:
    with DataLoader(make_reader(url), batch_size=4, shuffling_queue_capacity=100) as loader:
        for batch in loader:
            print(batch["x"].shape, batch.items())
    even = in_lambda(["id"], lambda id_: id_ % 2 == 0)
    with BatchedDataLoader(make_batch_reader(url, predicate=even), batch_size=4) as columns:
        for tensors in columns:
            assert_type(tensors, dict[str, torch.Tensor])
    for tensors in InMemBatchedDataLoader(make_batch_reader(url), num_epochs=2, shuffle=True):
        assert_type(tensors, dict[str, torch.Tensor])
    for count in DataLoader(make_reader(url), collate_fn=len):
        assert_type(count, int)


def tensorflow(reader: Reader) -> None:
    for row in make_petastorm_dataset(reader):
        print(row.x, row._asdict())
    for row in make_petastorm_dataset(reader).batch(4).repeat().take(2):
        print(row.x)


def mixed(first: str, second: str) -> None:
    readers = [make_reader(first, num_epochs=None), make_reader(second, num_epochs=None)]
    with WeightedSamplingReader(readers, [0.5, 0.5]) as reader:
        print(next(reader).x)


SCHEMA = Unischema(
    "Hello",
    [
        UnischemaField("id", np.int32, (), ScalarCodec(IntegerType()), False),
        UnischemaField("image", np.uint8, (128, 256, 3), CompressedImageCodec("png"), False),
        UnischemaField("array", np.float32, (None, 30), NdarrayCodec(), True),
    ],
)


def write(spark: SparkSession, url: str) -> None:
    assert_type(SCHEMA.fields, OrderedDict[str, UnischemaField])
    print(SCHEMA.id.name, SCHEMA.image.shape)
    with materialize_dataset(spark, url, SCHEMA, row_group_size_mb=64):
        rows = [dict_to_spark_row(SCHEMA, {"id": 1, "image": None, "array": None})]
        frame = spark.createDataFrame(rows, SCHEMA.as_spark_schema())
        frame.write.mode("overwrite").parquet(url)


def rewrite(source: str) -> str:
    result = migrate(source, unsafe=True)
    assert_type(result, Result)
    return str(result.source)
