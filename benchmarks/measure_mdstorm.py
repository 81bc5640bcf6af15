"""mdstorm's loaders, reading Parquet and MDS written by its Spark converter.

Runs in the project's own environment.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from measuring import (
    arguments,
    emit,
    in_a_process,
    peak_memory,
    read_once,
    reading_speed,
    time_writes,
    touch_mapping,
    touch_namedtuple,
)
from sizes import size
from table import numeric_table, spark_session

from mdstorm.pytorch import BatchedDataLoader
from mdstorm.spark import SparkDatasetConverter, make_spark_converter

IMPORT_ATTEMPTS = size(5, 1)
LONG_EPOCHS = size(10, 2)
#: Shuffle buffer size for Parquet files, in rows; the same as for Petastorm.
SHUFFLE_BUFFER_ROWS = 100_000


def import_seconds() -> float:
    """Measure the time that `import mdstorm` adds to running Python, as the best of five runs."""

    def best(program: str) -> float:
        seconds = []
        for _ in range(IMPORT_ATTEMPTS):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", program], check=True)
            seconds.append(time.perf_counter() - start)
        return min(seconds)

    return best("import mdstorm") - best("pass")


def open_torch(converter: Any, batch_size: int, **options: Any) -> Any:
    """Return a context that opens the torch loader."""
    options = {"num_epochs": 1, **options}
    return converter.make_torch_dataloader(batch_size=batch_size, **options)


def open_tf(converter: Any, batch_size: int) -> Any:
    """Return a context that opens the tf.data pipeline."""
    return converter.make_tf_dataset(batch_size=batch_size, num_epochs=1, shuffle_row_groups=False)


def speed_after_tf(tf_data: Any, torch: Any, rows: int) -> dict[str, Any]:
    """Measure the torch loader in a process that has read once with tf.data."""
    read_once(tf_data, touch_namedtuple, rows)
    return reading_speed(torch, touch_mapping, rows)


def write_parquet(session: Any, folder: str, rows: int) -> SparkDatasetConverter:
    """Write Parquet files as Petastorm's converter does; return a converter for these files."""
    directory = Path(folder, "parquet")
    frame = numeric_table(session, 0, rows)
    frame.write.option("compression", "uncompressed").parquet(directory.as_uri())
    frame.unpersist(blocking=True)
    files = sorted(path.as_uri() for path in directory.glob("*.parquet"))
    return SparkDatasetConverter(directory.as_uri(), files, rows)


def main() -> None:
    """Measure and print one line of JSON."""
    options = arguments(__doc__)
    rows, batch_size = options.rows, options.batch_size
    import_s = import_seconds()

    with tempfile.TemporaryDirectory() as folder:
        session = spark_session()
        session.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f"file://{folder}")
        figures, converter = time_writes(session, make_spark_converter, rows)
        parquet = write_parquet(session, folder, rows)
        session.stop()

        loader = partial(open_torch, converter, batch_size)
        in_order = partial(loader, shuffle_row_groups=False)
        shuffled = partial(loader, shuffling_queue_capacity=rows)
        long_run = partial(in_order, num_epochs=LONG_EPOCHS)
        torch = {
            "in_order": reading_speed(in_order, touch_mapping, rows),
            "in_order_long": reading_speed(long_run, touch_mapping, rows * LONG_EPOCHS),
            "shuffled": reading_speed(shuffled, touch_mapping, rows),
        }
        batched = partial(open_torch, parquet, batch_size, data_loader_fn=BatchedDataLoader)
        parquet_in_order = partial(batched, shuffle_row_groups=False)
        parquet_shuffled = partial(batched, shuffling_queue_capacity=SHUFFLE_BUFFER_ROWS)
        torch_parquet = {
            "in_order": reading_speed(parquet_in_order, touch_mapping, rows),
            "shuffled": reading_speed(parquet_shuffled, touch_mapping, rows),
        }
        memory = {
            "in_order": in_a_process(peak_memory, in_order),
            "shuffled": in_a_process(peak_memory, shuffled),
        }
        # Measured in separate processes, so that TensorFlow's threads and settings do not affect
        # this one.
        mds_tf = partial(open_tf, converter, batch_size)
        tf = in_a_process(reading_speed, mds_tf, touch_namedtuple, rows)
        parquet_tf = partial(open_tf, parquet, batch_size)
        tf_parquet = in_a_process(reading_speed, parquet_tf, touch_namedtuple, rows)
        after_tf = {
            "in_order": in_a_process(speed_after_tf, mds_tf, in_order, rows),
            "shuffled": in_a_process(speed_after_tf, mds_tf, shuffled, rows),
        }

    emit(
        {
            "library": "mdstorm",
            "version": version("mdstorm"),
            "rows": rows,
            "batch_size": batch_size,
            **figures,
            "torch_rows_per_s": torch,
            "torch_after_tf_rows_per_s": after_tf,
            "tf_rows_per_s": tf,
            "parquet_torch_rows_per_s": torch_parquet,
            "parquet_tf_rows_per_s": tf_parquet,
            "shuffle_buffer_rows": rows,
            "import_s": import_s,
            "memory": memory,
        }
    )


if __name__ == "__main__":
    main()
