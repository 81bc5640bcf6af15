"""Petastorm's torch and TensorFlow loaders, reading Parquet written by its Spark converter.

Runs in the `petastorm` environment created by `make_environments.sh`.
"""

from __future__ import annotations

import tempfile
import warnings
from functools import partial
from importlib.metadata import version
from typing import Any

from measuring import (
    arguments,
    emit,
    in_a_process,
    peak_memory,
    reading_speed,
    time_writes,
    touch_mapping,
    touch_namedtuple,
)
from petastorm.pytorch import BatchedDataLoader
from petastorm.spark import SparkDatasetConverter, make_spark_converter
from table import spark_session

SHUFFLE_BUFFER_ROWS = 100_000
LONG_EPOCHS = 10


def open_batched(converter: Any, batch_size: int, **options: Any) -> Any:
    """Return a context that opens Petastorm's fast torch loader."""
    options = {"num_epochs": 1, **options}
    return converter.make_torch_dataloader(
        batch_size=batch_size, data_loader_fn=BatchedDataLoader, **options
    )


def open_row_by_row(converter: Any, batch_size: int) -> Any:
    """Return a context that opens Petastorm's default torch loader."""
    return converter.make_torch_dataloader(
        batch_size=batch_size, num_epochs=1, shuffle_row_groups=False
    )


def open_tf(converter: Any, batch_size: int) -> Any:
    """Return a context that opens Petastorm's tf.data pipeline."""
    return converter.make_tf_dataset(batch_size=batch_size, num_epochs=1, shuffle_row_groups=False)


def main() -> None:
    """Measure and print one line of JSON."""
    options = arguments(__doc__)
    rows, batch_size = options.rows, options.batch_size
    # Otherwise, the measured time would include printing hundreds of pyarrow warnings.
    warnings.simplefilter("ignore")

    with tempfile.TemporaryDirectory() as folder:
        session = spark_session()
        session.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f"file://{folder}")
        figures, converter = time_writes(session, make_spark_converter, rows)
        session.stop()

        batched = partial(open_batched, converter, batch_size)
        in_order = partial(batched, shuffle_row_groups=False)
        shuffled = partial(batched, shuffling_queue_capacity=SHUFFLE_BUFFER_ROWS)
        long_run = partial(in_order, num_epochs=LONG_EPOCHS)
        torch = {
            "batched": reading_speed(in_order, touch_mapping, rows),
            "batched_long": reading_speed(long_run, touch_mapping, rows * LONG_EPOCHS),
            "batched_shuffled": reading_speed(shuffled, touch_mapping, rows),
            "row_by_row": reading_speed(
                partial(open_row_by_row, converter, batch_size), touch_mapping, rows
            ),
        }
        memory = {
            "batched": in_a_process(peak_memory, in_order),
            "batched_shuffled": in_a_process(peak_memory, shuffled),
        }
        # Measured last, so that TensorFlow's threads are not running while torch is measured.
        tf = reading_speed(partial(open_tf, converter, batch_size), touch_namedtuple, rows)

    emit(
        {
            "library": "petastorm",
            "version": version("petastorm"),
            "rows": rows,
            "batch_size": batch_size,
            **figures,
            "torch_rows_per_s": torch,
            "tf_rows_per_s": tf,
            "shuffle_buffer_rows": SHUFFLE_BUFFER_ROWS,
            "memory": memory,
        }
    )


if __name__ == "__main__":
    main()
