"""A program that was written for Petastorm, and does not import mdstorm.

It writes scanned digits with Petastorm's own codecs, and reads them back to train a model. It runs
on mdstorm without an edit, and the migration tool rewrites it:

    mdstorm run examples/legacy/train_digits.py
    mdstorm migrate examples/legacy
"""

import argparse
import tempfile

import numpy as np
import torch
from petastorm import TransformSpec, make_reader
from petastorm.codecs import CompressedImageCodec, ScalarCodec
from petastorm.etl.dataset_metadata import materialize_dataset
from petastorm.predicates import in_pseudorandom_split
from petastorm.pytorch import DataLoader
from petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType
from sklearn.datasets import load_digits
from torch import nn

DigitSchema = Unischema(
    "DigitSchema",
    [
        UnischemaField("number", np.int32, (), ScalarCodec(IntegerType()), False),
        UnischemaField("label", np.int32, (), ScalarCodec(IntegerType()), False),
        UnischemaField("image", np.uint8, (8, 8), CompressedImageCodec("png"), False),
    ],
)


def write_digits(spark, url):
    """Write one row for each picture of a digit: its number, its label, and the picture."""
    digits = load_digits()
    pictures = (digits.images * 255 / 16).astype(np.uint8)
    with materialize_dataset(spark, url, DigitSchema, row_group_size_mb=1):
        rows = [
            dict_to_spark_row(
                DigitSchema, {"number": i, "label": int(digits.target[i]), "image": pictures[i]}
            )
            for i in range(len(pictures))
        ]
        frame = spark.createDataFrame(rows, DigitSchema.as_spark_schema()).coalesce(2)
        frame.write.mode("overwrite").parquet(url)


def to_features(row):
    """Convert the picture in a row to a vector."""
    return {
        "features": row["image"].reshape(64).astype(np.float32) / 255,
        "label": row["label"],
    }


TO_FEATURES = TransformSpec(
    to_features,
    edit_fields=[("features", np.float32, (64,), False)],
    selected_fields=["features", "label"],
)


def batches(url, subset, num_epochs=1):
    """Read the four fifths of the rows to train on, or the held-out fifth, split by a hash."""
    reader = make_reader(
        url,
        num_epochs=num_epochs,
        predicate=in_pseudorandom_split([0.8, 0.2], subset, "number"),
        transform_spec=TO_FEATURES,
        seed=1,
    )
    with DataLoader(reader, batch_size=64, shuffling_queue_capacity=512) as loader:
        for batch in loader:
            yield batch["features"], batch["label"].long()


def main():
    """Train on one part of the rows, and count the recognised digits in the other part."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    epochs = parser.parse_args().epochs

    spark = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    )
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    with tempfile.TemporaryDirectory() as directory:
        url = "file://" + directory + "/digits"
        write_digits(spark, url)
        for features, label in batches(url, subset=0, num_epochs=epochs):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(features), label).backward()
            optimizer.step()
        with torch.no_grad():
            right = [
                model(features).argmax(1) == label for features, label in batches(url, subset=1)
            ]
    found = torch.cat(right)
    print(f"recognised {int(found.sum())} of {len(found)} digits that it has not seen")
    spark.stop()


if __name__ == "__main__":
    main()
