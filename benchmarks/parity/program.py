"""An ordinary Petastorm program, run once on Petastorm and once on mdstorm.

    program.py petastorm|mdstorm BATCHES_FILE

Only the import line differs. All batches that the loaders yield are saved to BATCHES_FILE (.npz),
and a line for each batch is printed.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import warnings
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

if sys.argv[1] == "petastorm":
    from petastorm.spark import SparkDatasetConverter, make_spark_converter
else:
    from mdstorm.spark import SparkDatasetConverter, make_spark_converter

ROWS = 1_000
# Does not divide the rows in one or two epochs: one batch spans both, and the last one is short.
BATCH_SIZE = 96
NUMBERS = [
    "hash(id) as an_int",
    "id * 3000000001 as a_long",
    "cast(id / 7 as float) as a_float",
    "id / 3 as a_double",
    "id % 3 = 0 as a_boolean",
    "array(id / 3, -id / 7, cast(id as double)) as an_array",
]
TEXT = ["concat('row ', id, ' ä') as a_string"]
READING = {
    "batch_size": BATCH_SIZE,
    "num_epochs": 2,
    "shuffle_row_groups": False,
    # Petastorm's thread pool sometimes ends before the first row.
    "reader_pool_type": "dummy",
}


def read_batches(session: SparkSession, dtype: str | None) -> dict[str, list[dict[str, Any]]]:
    """Convert the rows, then read them with torch and with TensorFlow."""
    # With one partition there is one row group, so both libraries return rows in the same order.
    rows = session.range(0, ROWS, 1, 1)

    converter = make_spark_converter(rows.selectExpr(NUMBERS), dtype=dtype)
    with converter.make_torch_dataloader(**READING) as loader:
        torch = [{name: column.numpy() for name, column in batch.items()} for batch in loader]

    converter = make_spark_converter(rows.selectExpr(NUMBERS + TEXT), dtype=dtype)
    with converter.make_tf_dataset(**READING) as dataset:
        tf = [
            {name: column.numpy() for name, column in batch._asdict().items()} for batch in dataset
        ]
    return {"torch": torch, "tf": tf}


def main() -> None:
    """Read with float32 and with unchanged precision; save the batches, and print their digests."""
    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    saved: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as folder:
        session.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f"file://{folder}")
        for dtype in ("float32", None):
            for framework, batches in read_batches(session, dtype).items():
                for number, batch in enumerate(batches):
                    key = f"{dtype}/{framework}/{number:03d}"
                    saved[f"{key}/columns"] = np.array(list(batch))
                    for name, column in batch.items():
                        # Strings are object arrays, which .npz would pickle, so their bytes are
                        # saved instead.
                        column = column.astype("S") if column.dtype == object else column
                        saved[f"{key}/{name}"] = column
                    print(key, describe(batch))
    np.savez(sys.argv[2], **saved)


def describe(batch: dict[str, np.ndarray]) -> str:
    """Return a digest of the values and each column's dtype and shape as text."""
    digest = hashlib.sha256()
    for column in batch.values():
        digest.update(repr(column.tolist()).encode())
    columns = " ".join(f"{name}:{column.dtype}{column.shape}" for name, column in batch.items())
    return f"{digest.hexdigest()[:12]} {columns}"


if __name__ == "__main__":
    main()
