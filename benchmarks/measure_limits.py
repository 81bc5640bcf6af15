"""How far mdstorm's loaders are from the bare loops of NumPy, PyTorch and TensorFlow.

    python benchmarks/measure_limits.py [--rows 2000000] [--rounds 7]

The bare loops are what a user would write: they map a shard, and make a dict of tensors of each
batch of its records, or a matrix, in order, or after permuting all records. One such loop
finds its records in memory. The bare loop for TensorFlow slices batches from one element that is in
memory. None of them resumes, or reads more than one file. The loops and the loaders run in one
process, in turn, round by round. Writes `results_limits.json` next to this file, or `--output`:
rows per second of CPU time, of all threads, and per second of wall time.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf
import torch
from numpy.lib.recfunctions import structured_to_unstructured
from sizes import SMALLEST, size

from mdstorm.spark import make_spark_converter
from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset

HERE = Path(__file__).resolve().parent
#: Columns and their dtypes, by the name of the table.
TABLES: dict[str, dict[str, str]] = {
    "26 float32": {f"x{number:02d}": "float32" for number in range(26)},
    "5 float32": {f"x{number:02d}": "float32" for number in range(5)},
    "26 mixed": {
        f"x{number:02d}": ("float32", "int64", "float64", "int32")[number % 4]
        for number in range(26)
    },
}
if SMALLEST:
    TABLES = {"5 float32": TABLES["5 float32"]}
BATCH_SIZES = (1024,) if SMALLEST else (256, 1024, 8192)
#: The bare loops, and what is compared with each.
LIMITS = {
    "a loop over a mapped shard": (
        "the loop over memory",
        "in order",
        "in order, no threads",
    ),
    "a loop that shuffles": ("shuffled",),
    "a loop that makes matrices": ("matrix",),
    "TensorFlow alone": ("tf.data",),
}
#: One pass is repeated until this much CPU time has been used.
_CPU_SECONDS = size(0.4, 0.0)


def write(folder: Path, columns: dict[str, str], rows: int) -> npt.NDArray[np.void]:
    """Write a table to one shard, and return its records as they are stored."""
    rng, dtype = np.random.default_rng(0), np.dtype([*columns.items()])
    records = np.empty(rows, dtype)
    for name, kind in columns.items():
        records[name] = rng.integers(0, 1000, rows).astype(kind)
    with MDSWriter(out=str(folder), columns=columns, size_limit=1 << 31) as writer:
        writer.write_batch(pa.table({name: records[name] for name in columns}))
    return records


def mapped(folder: Path, dtype: npt.DTypeLike, rows: int) -> npt.NDArray[np.void]:
    """Map the records at the end of the only shard."""
    (shard,) = folder.glob("*.mds")
    dtype = np.dtype(dtype)
    records = np.memmap(shard, dtype, "r", shard.stat().st_size - rows * dtype.itemsize)
    return np.asarray(records)  # slices of a memmap take longer to make


def batches_of_records(records: npt.NDArray[np.void], batch_size: int) -> Iterator[Any]:
    """Yield a dict of tensors of each batch, as a user's own loop would."""
    names = records.dtype.names or ()
    for start in range(0, len(records), batch_size):
        batch = records[start : start + batch_size]
        yield {name: torch.from_numpy(np.ascontiguousarray(batch[name])) for name in names}


def shuffled(records: npt.NDArray[np.void], batch_size: int) -> Iterator[Any]:
    """Yield the batches of all records, permuted, as mdstorm permutes the rows of a shard."""
    rows = np.random.default_rng(0).permutation(len(records))
    for start in range(0, len(records), batch_size):
        batch = records.take(rows[start : start + batch_size])
        yield from batches_of_records(batch, batch_size)


def matrices_of_records(records: npt.NDArray[np.void], batch_size: int) -> Iterator[torch.Tensor]:
    """Yield a matrix of the columns of each batch."""
    for start in range(0, len(records), batch_size):
        batch = records[start : start + batch_size]
        yield torch.from_numpy(structured_to_unstructured(batch, copy=True))


def sliced_by_tensorflow(records: npt.NDArray[np.void], batch_size: int) -> Any:
    """Return a dataset of batches that TensorFlow slices from tensors in memory."""
    names = records.dtype.names or ()
    whole = {name: tf.constant(np.ascontiguousarray(records[name])) for name in names}
    return tf.data.Dataset.from_tensors(whole).rebatch(batch_size)


def loaders(
    folder: str, columns: Iterable[str], batch_size: int
) -> dict[str, Callable[[], Iterable[Any]]]:
    """Return functions that create mdstorm's loaders over a table."""
    converter = make_spark_converter(folder)

    def of_engine(**options: Any) -> Iterable[Any]:
        return StreamingDataLoader(
            StreamingDataset(local=folder, batch_size=batch_size, **options), batch_size
        )

    def of_converter(**options: Any) -> Iterable[Any]:
        return converter.make_torch_dataloader(
            batch_size, num_epochs=1, shuffle_row_groups=False, **options
        )

    dataset = converter.make_tf_dataset(
        batch_size=batch_size, num_epochs=1, shuffle_row_groups=False
    )
    return {
        "in order": of_engine,
        "in order, no threads": lambda: of_engine(workers=0),
        "shuffled": lambda: of_converter(shuffling_queue_capacity=100_000),
        "matrix": lambda: of_converter(stack=True, features=[*columns]),
        "tf.data": partial(iter, dataset),
    }


def speeds(make: Callable[[], Iterable[Any]], rows: int) -> tuple[float, float]:
    """Return rows per second of CPU time and of wall time, over whole passes."""
    done, cpu, wall = 0, time.process_time(), time.perf_counter()
    while not done or time.process_time() - cpu < _CPU_SECONDS:
        for _ in make():
            pass
        done += rows
    return done / (time.process_time() - cpu), done / (time.perf_counter() - wall)


def measure(folder: Path, columns: dict[str, str], rows: int, rounds: int) -> dict[str, Any]:
    """Return the median speeds of each loop over one table, by batch size and name."""
    records = write(folder, columns, rows)
    dtype = records.dtype
    loops = {
        "a loop over a mapped shard": batches_of_records,
        "a loop that shuffles": shuffled,
        "a loop that makes matrices": matrices_of_records,
    }
    found: dict[str, Any] = {}
    for batch_size in BATCH_SIZES:
        made: dict[str, Callable[[], Iterable[Any]]] = {
            **{
                name: lambda loop=loop, size=batch_size: loop(mapped(folder, dtype, rows), size)
                for name, loop in loops.items()
            },
            "the loop over memory": lambda size=batch_size: batches_of_records(records, size),
            # Made once, as a program makes it; each pass is an iteration.
            "TensorFlow alone": partial(iter, sliced_by_tensorflow(records, batch_size)),
            **loaders(str(folder), columns, batch_size),
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
        for _ in range(rounds + 1):
            for name, make in made.items():
                gc.collect()
                taken[name].append(speeds(make, rows))
        found[str(batch_size)] = {
            name: {
                "rows_per_cpu_s": statistics.median(cpu for cpu, _ in figures[1:]),
                "rows_per_s": statistics.median(wall for _, wall in figures[1:]),
            }
            for name, figures in taken.items()
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=size(2_000_000, 3_000))
    parser.add_argument("--rounds", type=int, default=size(7, 1))
    parser.add_argument("--output", type=Path, default=HERE / "results_limits.json")
    args = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, columns) in enumerate(TABLES.items()):
            found[name] = measure(Path(folder) / str(number), columns, args.rows, args.rounds)
    results = {
        "version": version("mdstorm"),
        "rows": args.rows,
        "rounds": args.rounds,
        "load": os.getloadavg()[2],
        "compared": LIMITS,
        "limits": found,
    }
    args.output.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
