"""Programs from the raw data to the model, as tutorials on Petastorm have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import torch
from petastorm import TransformSpec, make_batch_reader, make_reader
from petastorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.pytorch import DataLoader
from petastorm.spark import make_spark_converter
from petastorm.tf_utils import make_petastorm_dataset
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql import types as T  # noqa: N812
from tests.conformance.place import Place
from tests.conformance.reading import CALM

_LEAVES = Unischema(
    "Leaves",
    [
        UnischemaField("number", np.int32, (), ScalarCodec(T.IntegerType()), False),
        UnischemaField("species", np.str_, (), ScalarCodec(T.StringType()), False),
        UnischemaField("photo", np.uint8, (None, None, 3), CompressedImageCodec("png"), False),
        UnischemaField("outline", np.float32, (None, 2), NdarrayCodec(), True),
    ],
)

_SPECIES = ("birch", "oak")


def _leaf(number: int) -> dict[str, Any]:
    height = 4 + number % 3
    return {
        "number": number,
        "species": _SPECIES[number % 2],
        "photo": np.arange(height * 5 * 3, dtype=np.uint8).reshape(height, 5, 3) + number,
        "outline": None if number == 3 else np.full((number % 4, 2), number / 4, np.float32),
    }


def _scaled(row: dict[str, Any]) -> dict[str, Any]:
    """What the model takes of a leaf: a square of the photo, and the number of the species."""
    square = row["photo"][:4, :4].astype(np.float32) / 255
    return {"square": square.transpose(2, 0, 1), "label": _SPECIES.index(row["species"])}


_FOR_THE_MODEL = TransformSpec(
    _scaled,
    edit_fields=[("square", np.float32, (3, 4, 4), False), ("label", np.int64, (), False)],
    removed_fields=["number", "species", "photo", "outline"],
)


class _Model(torch.nn.Module):
    """One layer that begins with ones."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(size, 1)
        for parameter in self.layer.parameters():
            torch.nn.init.ones_(parameter)

    def forward(self, batch: torch.Tensor) -> Any:
        return self.layer(batch.flatten(1)).squeeze(1)


def _losses(model: Any, batches: Any) -> list[str]:
    """Train for a pass; the losses are rounded to what all versions of PyTorch agree on."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), labels.float())
        loss.backward()
        optimizer.step()
        losses.append(f"{loss.item():.4g}")
    return losses


def pictures_are_written_and_trained_on(place: Place, spark: Any) -> Any:
    url = place.url("leaves")
    with materialize_dataset(spark, url, _LEAVES, row_group_size_mb=1):
        numbers = spark.sparkContext.parallelize(range(7), 1)
        rows = numbers.map(_leaf).map(lambda row: dict_to_spark_row(_LEAVES, row))
        frame = spark.createDataFrame(rows, _LEAVES.as_spark_schema())
        frame.write.mode("overwrite").option("compression", "none").parquet(url)

    with make_reader(url, **CALM) as reader:
        first = next(reader)
        shapes = [row.photo.shape for row in reader]
    reader = make_reader(url, transform_spec=_FOR_THE_MODEL, num_epochs=2, **CALM)
    with DataLoader(reader, batch_size=4) as loader:
        losses = _losses(_Model(48), ((batch["square"], batch["label"]) for batch in loader))
    with make_reader(url, schema_fields=["number", "photo"], **CALM) as reader:
        sums = [
            [int(row.number), int(tf.reduce_sum(tf.cast(row.photo, tf.int32)))]
            for row in make_petastorm_dataset(reader)
        ]
    return [first, shapes, losses, sums]


def vectors_of_text_files_are_converted_and_trained_on(place: Place, spark: Any) -> Any:
    lines = [f"{i % 3} {1 + i % 4}:{i}.5 {5 + i % 2}:{-i}" for i in range(10)]
    (place.folder / "points.txt").write_text("\n".join(lines))
    frame = spark.read.format("libsvm").option("numFeatures", "6").load(place.url("points.txt"))
    frame = frame.selectExpr("features", "CAST(label AS BIGINT) AS label").coalesce(1)
    converter = make_spark_converter(frame)
    quiet = {"num_epochs": 1, "reader_pool_type": "dummy", "shuffle_row_groups": False}
    with converter.make_torch_dataloader(batch_size=4, **quiet) as loader:
        batches = list(loader)
    losses = _losses(_Model(6), ((batch["features"], batch["label"]) for batch in batches))
    with converter.make_tf_dataset(batch_size=4, **quiet) as dataset:
        pairs = dataset.map(lambda row: (tf.reshape(row.features, [-1, 2, 3]), row.label))
        shapes = [[tuple(x.shape), y.numpy().tolist()] for x, y in pairs]
    rows = len(converter)
    converter.delete()
    return [rows, batches[0], losses, shapes]


def plain_files_are_read_in_three_ways(place: Place) -> Any:
    url = place.parquet({"id": np.arange(6), "value": np.arange(6) / 4}, group=3)
    arguments = {"schema_fields": ["id", "value"], **CALM}
    with make_batch_reader(url, **arguments) as reader:
        plain = [f"{batch.id} {batch.value}" for batch in reader]
    with DataLoader(make_batch_reader(url, **arguments)) as loader:
        one = dict(sorted(next(iter(loader)).items()))
    with make_batch_reader(url, **arguments) as reader:
        dataset = make_petastorm_dataset(reader).unbatch().batch(4)
        tensors = [[batch.id, batch.value] for batch in dataset]
    return [plain, one, tensors]
