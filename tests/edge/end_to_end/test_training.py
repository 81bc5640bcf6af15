"""Models learn from the loaders' batches, with the same results for the same seed."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import keras
import pytest
import torch
from pyspark.sql import SparkSession
from tests.conftest import of_values
from torch import nn

from mdstorm.spark import SparkDatasetConverter, make_spark_converter

STEPS = 150
SHUFFLED = {"batch_size": 32, "num_epochs": None, "shuffling_queue_capacity": 200, "seed": 7}


@pytest.fixture
def converter(
    spark: SparkSession, tmp_path: Path, set_conf: Callable[[str, str | None], None]
) -> SparkDatasetConverter:
    """Points on the plane y = 3a - 2b + 1, with a column with nulls that models must ignore."""
    set_conf(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, tmp_path.as_uri())
    return make_spark_converter(
        spark.range(500).selectExpr(
            "array(sin(id), cos(id * 7)) AS x",
            "3 * sin(id) - 2 * cos(id * 7) + 1 AS y",
            "IF(id % 9 = 0, NULL, id) AS hole",
        )
    )


def torch_losses(converter: SparkDatasetConverter) -> list[float]:
    torch.manual_seed(1)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with converter.make_torch_dataloader(**SHUFFLED) as loader:
        for batch in islice(loader, STEPS):
            loss = nn.functional.mse_loss(model(batch["x"]).squeeze(1), batch["y"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def keras_losses(converter: SparkDatasetConverter) -> list[float]:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    with converter.make_tf_dataset(**SHUFFLED, schema_fields=["x", "y"]) as dataset:
        history = model.fit(
            dataset.map(lambda row: (row.x, row.y)),
            steps_per_epoch=STEPS // 10,
            epochs=10,
            shuffle=False,
            verbose=0,
        )
    losses: list[float] = history.history["loss"]
    return losses


@pytest.mark.long
@of_values
@pytest.mark.parametrize("losses_of", [torch_losses, keras_losses])
def test_training_loss_falls_and_is_the_same_in_repeated_runs(
    converter: SparkDatasetConverter, losses_of: object
) -> None:
    assert callable(losses_of)
    losses = losses_of(converter)
    assert losses[-1] < 1e-3 < 1 < losses[0]
    assert losses_of(converter) == losses
