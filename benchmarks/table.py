"""The table on which every library is measured, and the Spark session that creates it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from sizes import size

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = size(500_000, 3_000)
COLUMN_PAIRS = 13
FIRST_COLUMN = "float_00"
LAST_COLUMN = f"int_{COLUMN_PAIRS - 1:02d}"


def spark_session() -> SparkSession:
    """Return a session with two local cores, whose Python workers run this interpreter."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("mdstorm-benchmark")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def numeric_table(session: SparkSession, seed: int, rows: int = ROWS) -> DataFrame:
    """Return 13 float and 13 int columns in two partitions; equal seeds give equal values.

    The frame is cached by Spark before it is returned, so that timings afterwards include only
    writing, not computing.
    """
    from pyspark.sql.functions import col, hash, lit, rand

    floats = [
        rand(seed=1_000 * seed + i).cast("float").alias(f"float_{i:02d}")
        for i in range(COLUMN_PAIRS)
    ]
    ints = [
        hash(col("id"), lit(1_000 * seed + i)).alias(f"int_{i:02d}") for i in range(COLUMN_PAIRS)
    ]
    frame = session.range(0, rows, 1, 2).select(*floats, *ints).cache()
    frame.count()
    return frame
