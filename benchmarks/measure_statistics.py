"""What counting costs: passes that are recorded, and others that are not, on the 26-column table.

    python benchmarks/measure_statistics.py [--rounds 400] [--batch-size 1024] [--epochs 1]

Both take turns in one process, each of them first as often as the other, beside passes that show
how much two of one kind differ. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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
    for rest in current.rests():
        yield from runner.stretch(current, deliver(rest))
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


def compare(open_loader: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Return how much longer recorded passes take than others, as ratios.

    ``noise`` is the same ratio between passes of one kind, neither of which is recorded.
    """
    recorded = PassRunner.run
    kinds = [recorded, unrecorded, unrecorded]
    times: list[list[tuple[float, float]]] = [[] for _ in kinds]
    for number in range(-WARM_UP, rounds):
        for turn in range(len(kinds)):
            kind = (turn + number) % len(kinds)
            seconds = seconds_of_pass(open_loader, kinds[kind])
            if number >= 0:
                times[kind].append(seconds)
    PassRunner.run = recorded  # type: ignore[method-assign]
    (wall, cpu), (wall_without, cpu_without), (again, cpu_again) = (
        zip(*found, strict=True) for found in times
    )
    return {
        "wall_ratio": _ratio(wall, wall_without),
        "wall_noise": _ratio(again, wall_without),
        "cpu_ratio": _ratio(cpu, cpu_without),
        "cpu_noise": _ratio(cpu_again, cpu_without),
        "wall_s_without": statistics.median(wall_without),
    }


def _ratio(seconds: Sequence[float], others: Sequence[float]) -> float:
    """Compare the quicker halves: what disturbs a pass only makes it longer."""
    half = len(seconds) // 2
    return statistics.mean(sorted(seconds)[:half]) / statistics.mean(sorted(others)[:half])


def main() -> None:
    """Measure and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=1, help="of a pass")
    options = parser.parse_args()
    figures: dict[str, Any] = {
        "rounds": options.rounds,
        "batch_size": options.batch_size,
        "epochs": options.epochs,
    }
    with tempfile.TemporaryDirectory() as folder:
        converter = write_table(folder, options.rows)
        loader = partial(
            converter.make_torch_dataloader,
            batch_size=options.batch_size,
            num_epochs=options.epochs,
        )
        in_order = partial(loader, shuffle_row_groups=False)
        shuffled = partial(loader, shuffling_queue_capacity=options.rows)
        for name, open_loader in {"in_order": in_order, "shuffled": shuffled}.items():
            figures[name] = compare(open_loader, options.rounds)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
