"""Nested arrays of 4 by 8 floats per row, compared with flat arrays of 32 numbers.

    python benchmarks/measure_nested.py [--batch-size 1024] [--rows 500000]

Both are written by `mdstorm.convert` and read by our own loader, in turn, round by round, so that a
slow period on the machine affects both. Nested arrays of varying shape are compared with flat
arrays of varying length in the same way. Prints one line of JSON; exit code 1 if a target is
missed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from importlib.metadata import version
from operator import truediv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measuring import arguments, emit, reading_speed

from mdstorm import convert
from mdstorm_backend import StreamingDataLoader, StreamingDataset

ROUNDS = 7
PASS_SECONDS = 0.5
LENGTH, WIDTH = 4, 8
#: Minimum speed relative to the same numbers in flat arrays.
TARGETS = {"write": 0.8, "read": 0.8}


def lists(values: pa.Array, lengths: np.ndarray) -> pa.ListArray:
    """Divide values into lists of the given lengths."""
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), values)


def write_tables(folder: Path, rows: int) -> dict[str, Path]:
    """Write single-column Parquet files with the same numbers, flat and nested."""
    generator = np.random.default_rng(0)
    alike = np.full(rows, LENGTH)
    columns = {}
    for name, lengths in (("alike", alike), ("ragged", generator.integers(1, 8, rows))):
        numbers = pa.array(generator.random(int(lengths.sum()) * WIDTH, np.float32))
        columns[f"{name}_flat"] = lists(numbers, lengths * WIDTH)
        inner = lists(numbers, np.full(int(lengths.sum()), WIDTH))
        columns[f"{name}_nested"] = lists(inner, lengths)
    paths = {}
    for name, column in columns.items():
        paths[name] = folder / f"{name}.parquet"
        pq.write_table(pa.table({"values": column}), paths[name], row_group_size=rows // 2)
    return paths


def rows_of(batch: dict[str, Any]) -> int:
    return len(batch["values"])


def main() -> int:
    args = arguments(__doc__)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = write_tables(folder, args.rows)
        for number in range(ROUNDS):
            for kind, path in tables.items():
                written = str(folder / f"{kind}_{number}")
                start = time.perf_counter()
                convert(str(path), written)
                seconds = time.perf_counter() - start
                found.setdefault(f"write_{kind}", []).append(args.rows / seconds)

                def make(folder: str = written) -> StreamingDataLoader:
                    dataset = StreamingDataset(local=folder, batch_size=args.batch_size)
                    return StreamingDataLoader(dataset, args.batch_size)

                speed = reading_speed(make, rows_of, args.rows, passes=1, seconds=PASS_SECONDS)
                found.setdefault(f"read_{kind}", []).append(speed["rows_per_s"])
    rates = {name: statistics.median(speeds) for name, speeds in found.items()}
    # Ratios are computed per round, because other work on the machine affects a whole round.
    shares = {
        f"{what}_{kind}": statistics.median(
            map(truediv, found[f"{what}_{kind}_nested"], found[f"{what}_{kind}_flat"])
        )
        for what in TARGETS
        for kind in ("alike", "ragged")
    }
    emit({"version": version("mdstorm"), "rows_per_s": rates, "of_flat": shares})
    return int(any(shares[f"{what}_alike"] < least for what, least in TARGETS.items()))


if __name__ == "__main__":
    sys.exit(main())
