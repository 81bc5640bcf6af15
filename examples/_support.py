"""Helpers that the examples need in addition to mdstorm."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import files
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from mdstorm.spark import SparkDatasetConverter


@contextmanager
def spark_session(cache_dir: str) -> Iterator[SparkSession]:
    """Start a local session that writes its converted DataFrames below `cache_dir`."""
    builder = (
        SparkSession.builder.master("local[*]")
        .appName("mdstorm example")
        .config(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f"file://{cache_dir}")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.ui.enabled", "false")
    )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # A JVM that runs for half a minute does not benefit from the optimizing compiler.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    # The JVM inherits /dev/null as stderr, which hides its log. PySpark still raises its errors.
    stderr = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        spark = builder.getOrCreate()
    finally:
        os.dup2(stderr, 2)
    yield spark
    spark.stop()


def read_csv_of(package: str, name: str) -> pd.DataFrame:
    """Read a data file of an installed package without importing the package."""
    (file,) = (file for file in files(package) or [] if file.name == name)
    return pd.read_csv(file.locate())


def seconds_to_read(loader: Any) -> float:
    """Return how many seconds it takes to read all batches of a loader."""
    start = time.perf_counter()
    with loader as batches:
        for _ in batches:
            pass
    return time.perf_counter() - start
