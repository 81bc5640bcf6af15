"""The speed of PyTorch batches: dicts, matrices, `batch_map`, an array column, and samples.

    python benchmarks/measure_batches.py [--batch-size 1024] [--rows 500000]

The table has 26 float columns; all but the last are also stored as a single array column. The
variants are measured in turn, round by round, so that a slow period on the machine affects all of
them. Dicts and matrices are also shuffled over the whole epoch, and measured in CPU time. Prints
one line of JSON; exit code 1 if a target is missed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from operator import truediv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from measuring import arguments, emit, reading_speed, rows_per_cpu_second
from torch.utils.data import DataLoader

from mdstorm import convert
from mdstorm.spark import make_spark_converter
from mdstorm_backend import StreamingDataLoader, StreamingDataset

COLUMNS = [f"float_{number:02d}" for number in range(26)]
ROUNDS = 7
PASS_SECONDS = 0.5
#: Minimum speed relative to dict batches; for samples, minimum rows per second.
TARGETS = {
    "stack": 1.5,
    "batch_map": 0.5,
    "array_column": 1.5,
    "samples": 80_000,
}


def write(folder: Path, rows: int) -> tuple[str, str]:
    """Write a table, and a copy with all columns but the last in one array; return both paths."""
    values = np.random.default_rng(0).random((rows, len(COLUMNS)), np.float32)
    table = pa.table(dict(zip(COLUMNS, values.T, strict=True)))
    features = pa.FixedSizeListArray.from_arrays(values[:, :-1].ravel(), len(COLUMNS) - 1)
    arrays = pa.table({"features": features, COLUMNS[-1]: table[COLUMNS[-1]]})
    for name, one in (("columns", table), ("arrays", arrays)):
        pq.write_table(one, folder / f"{name}.parquet", row_group_size=rows // 2)
        convert(str(folder / f"{name}.parquet"), str(folder / name))
    return str(folder / "columns"), str(folder / "arrays")


def stacked(batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Convert the 26 columns to a feature matrix and a label."""
    *features, label = batch.values()
    return torch.stack(features, dim=1), label


def rows_of_dict(batch: dict[str, torch.Tensor]) -> int:
    return len(batch[COLUMNS[-1]])


def rows_of_pair(batch: tuple[torch.Tensor, torch.Tensor]) -> int:
    return len(batch[1])


def ways(
    columns: str, arrays: str, batch_size: int
) -> dict[str, tuple[Callable[[], Any], Callable[..., int]]]:
    """Return each loader's functions: one creates it, and one counts the rows in its batches."""

    def dataset(local: str = columns) -> StreamingDataset:
        return StreamingDataset(local=local, batch_size=batch_size)

    return {
        "dicts": (lambda: StreamingDataLoader(dataset(), batch_size), rows_of_dict),
        "stack": (
            lambda: make_spark_converter(columns).make_torch_dataloader(
                batch_size,
                num_epochs=1,
                shuffle_row_groups=False,
                features=COLUMNS[:-1],
                labels=COLUMNS[-1],
                stack=True,
            ),
            rows_of_pair,
        ),
        "batch_map": (
            lambda: StreamingDataLoader(dataset(), batch_size, batch_map=stacked),
            rows_of_pair,
        ),
        "array_column": (lambda: StreamingDataLoader(dataset(arrays), batch_size), rows_of_dict),
        "by_hand": (
            lambda: nullcontext(map(stacked, StreamingDataLoader(dataset(), batch_size))),
            rows_of_pair,
        ),
        "samples": (
            lambda: nullcontext(DataLoader(dataset(), batch_size=batch_size)),
            rows_of_dict,
        ),
    }


def shuffled(columns: str, rows: int, batch_size: int) -> dict[str, float]:
    """Return rows per CPU second for dicts and matrices, shuffled over the whole epoch."""
    converter = make_spark_converter(columns)
    found: dict[str, list[float]] = {"dicts": [], "stack": []}
    options: dict[str, Any] = {"num_epochs": 1, "shuffling_queue_capacity": rows}
    with (
        converter.make_torch_dataloader(batch_size, **options) as dicts,
        converter.make_torch_dataloader(
            batch_size, features=COLUMNS, stack=True, **options
        ) as matrices,
    ):
        for _ in range(ROUNDS):
            for name, loader, touch in (("dicts", dicts, rows_of_dict), ("stack", matrices, len)):
                speed = rows_per_cpu_second(partial(iter, loader), touch, rows, PASS_SECONDS)
                found[name].append(speed)
    return {name: statistics.median(speeds) for name, speeds in found.items()}


def main() -> int:
    args = arguments(__doc__)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        columns, arrays = write(Path(folder), args.rows)
        of_cpu = shuffled(columns, args.rows, args.batch_size)
        made = ways(columns, arrays, args.batch_size)
        for _ in range(ROUNDS):
            for name, (make, touch) in made.items():
                speed = reading_speed(make, touch, args.rows, passes=1, seconds=PASS_SECONDS)
                found.setdefault(name, []).append(speed["rows_per_s"])
    rates = {name: statistics.median(speeds) for name, speeds in found.items()}
    # Ratios are computed per round, because other work on the machine affects a whole round.
    shares = {
        name: statistics.median(map(truediv, found[name], found["dicts"]))
        for name in ("stack", "batch_map", "array_column", "by_hand")
    }
    emit(
        {
            "version": version("mdstorm"),
            "rows_per_s": rates,
            "of_dicts": shares,
            "shuffled_rows_per_cpu_s": of_cpu,
        }
    )
    reached = {**rates, **shares}
    return int(any(reached[name] < least for name, least in TARGETS.items()))


if __name__ == "__main__":
    sys.exit(main())
