"""What counting costs: passes that are recorded, and others that are not, on the 26-column table.

    python benchmarks/measure_statistics.py [--pairs 400] [--batch-size 1024]

Both take turns in one process, each of them first as often as the other, and wall and CPU seconds
are compared pair by pair: a busy machine disturbs both alike. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from table import COLUMN_PAIRS, FIRST_COLUMN, ROWS

from mdstorm import convert
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend.loaders.runner import PassRunner

WARM_UP = 5


def write_table(folder: str, rows: int) -> SparkDatasetConverter:
    """Write the table, and return a converter over it."""
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {}
    for number in range(COLUMN_PAIRS):
        columns[f"float_{number:02d}"] = rng.random(rows, np.float32)
        columns[f"int_{number:02d}"] = rng.integers(0, 1 << 31, rows, np.int32)
    file, directory = Path(folder, "table.parquet"), Path(folder, "mds")
    pq.write_table(pa.table(columns), file)
    dataset = convert(str(file), str(directory), keep_row_groups=False)
    return SparkDatasetConverter(directory.as_uri(), dataset.file_urls, rows)


def unrecorded(runner: PassRunner, deliver: Callable[[Any], Any]) -> Iterator[Any]:
    """Go through a pass as `PassRunner.run` does, without a recorder."""
    current = runner.begin()
    for leg in current.legs():
        yield from runner.stretch(current, deliver(leg))
    current.finish()
    runner._move(current)


def seconds_of_pass(open_loader: Callable[[], Any], run: Callable[..., Any]) -> tuple[float, float]:
    """Read everything, and return the wall and CPU seconds."""
    PassRunner.run = run  # type: ignore[method-assign]
    with open_loader() as loader:
        wall, cpu = time.perf_counter(), time.process_time()
        for batch in loader:
            assert len(batch[FIRST_COLUMN])
        return time.perf_counter() - wall, time.process_time() - cpu


def compare(open_loader: Callable[[], Any], pairs: int) -> dict[str, float]:
    """Return how much longer recorded passes take than others, as ratios."""
    both = [PassRunner.run, unrecorded]
    times: list[list[tuple[float, float]]] = [[], []]
    for number in range(-WARM_UP, pairs):
        for kind in (0, 1) if number % 2 else (1, 0):
            seconds = seconds_of_pass(open_loader, both[kind])
            if number >= 0:
                times[kind].append(seconds)
    PassRunner.run = both[0]  # type: ignore[method-assign]
    (wall, cpu), (wall_without, cpu_without) = (zip(*found, strict=True) for found in times)
    return {
        "wall_ratio": statistics.median(a / b for a, b in zip(wall, wall_without, strict=True)),
        "cpu_ratio": statistics.median(a / b for a, b in zip(cpu, cpu_without, strict=True)),
        "wall_s_without": statistics.median(wall_without),
    }


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--batch-size", type=int, default=1024)
    options = parser.parse_args()
    figures: dict[str, Any] = {"pairs": options.pairs, "batch_size": options.batch_size}
    with tempfile.TemporaryDirectory() as folder:
        converter = write_table(folder, options.rows)
        loader = partial(
            converter.make_torch_dataloader, batch_size=options.batch_size, num_epochs=1
        )
        in_order = partial(loader, shuffle_row_groups=False)
        shuffled = partial(loader, shuffling_queue_capacity=options.rows)
        for name, open_loader in {"in_order": in_order, "shuffled": shuffled}.items():
            figures[name] = compare(open_loader, options.pairs)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
