"""Run the examples that Petastorm installs as the package `examples`.

    upstream_examples.py write|read FOLDER

The package must be next to this program. `write` creates the datasets that the examples read, with
Petastorm's own functions. MNIST would have to be downloaded, so scikit-learn's digits are enlarged
to its size instead. `read` runs all examples but three: `examples.mnist.pytorch_example` needs
torchvision, and the converter examples also train in a Spark task, in which the PyTorch one divides
by zero under Petastorm. Readers run without threads, because with so few rows Petastorm's thread
pool may end before it has read all of them.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

SIZE = 28


def digits() -> list[tuple[int, np.ndarray]]:
    """Return pairs of a label and a picture in MNIST's format."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pictures = np.kron(found.images * 15, np.ones((3, 3))).astype(np.uint8)
    pictures = np.pad(pictures, ((0, 0), (2, 2), (2, 2)))
    return list(zip(found.target.tolist(), pictures, strict=True))


def write(folder: Path) -> None:
    """Write a dataset for each example."""
    from examples.hello_world.external_dataset import generate_external_dataset as external
    from examples.hello_world.petastorm_dataset import generate_petastorm_dataset as hello
    from examples.mnist.schema import MnistSchema
    from petastorm.etl.dataset_metadata import materialize_dataset
    from petastorm.unischema import dict_to_spark_row
    from pyspark.sql import SparkSession

    external.generate_external_dataset(url_of(folder, "external"))
    hello.generate_petastorm_dataset(url_of(folder, "hello"))
    spark = SparkSession.builder.getOrCreate()
    for part, chosen in (("train", digits()[:1500]), ("test", digits()[1500:])):
        url = url_of(folder, f"mnist/{part}")
        rows = [
            dict_to_spark_row(MnistSchema, {"idx": number, "digit": label, "image": picture})
            for number, (label, picture) in enumerate(chosen)
        ]
        with materialize_dataset(spark, url, MnistSchema, row_group_size_mb=1):
            frame = spark.createDataFrame(rows, MnistSchema.as_spark_schema()).coalesce(2)
            frame.write.parquet(url)


def read(folder: Path) -> None:
    """Run the examples. TensorFlow runs in graph mode, for which its examples were written."""
    import tensorflow as tf
    from examples.hello_world.external_dataset import python_hello_world as external_python
    from examples.hello_world.external_dataset import pytorch_hello_world as external_torch
    from examples.hello_world.external_dataset import tensorflow_hello_world as external_tf
    from examples.hello_world.petastorm_dataset import pyspark_hello_world as hello_spark
    from examples.hello_world.petastorm_dataset import python_hello_world as hello_python
    from examples.hello_world.petastorm_dataset import pytorch_hello_world as hello_torch
    from examples.hello_world.petastorm_dataset import tensorflow_hello_world as hello_tf
    from examples.mnist import tf_example

    for module in (external_python, external_torch, external_tf):
        read_without_threads(module, "make_batch_reader")
    for module in (hello_python, hello_torch, hello_tf, tf_example):
        read_without_threads(module, "make_reader")
    external, hello = url_of(folder, "external"), url_of(folder, "hello")
    external_python.python_hello_world(external)
    external_torch.pytorch_hello_world(external)
    hello_python.python_hello_world(hello)
    hello_torch.pytorch_hello_world(hello)
    hello_spark.pyspark_hello_world(hello)
    with tf.Graph().as_default():
        external_tf.tensorflow_hello_world(external)
    with tf.Graph().as_default():
        hello_tf.tensorflow_hello_world(hello)
    with tf.Graph().as_default():
        tf_example.train_and_test(url_of(folder, "mnist"), 20, 100, 10)


def read_without_threads(module: ModuleType, name: str) -> None:
    setattr(module, name, partial(getattr(module, name), reader_pool_type="dummy"))


def url_of(folder: Path, name: str) -> str:
    return (folder / name).resolve().as_uri()


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](Path(sys.argv[2]))
