"""Measure how opening time, time to first batch and memory grow with the size of a dataset.

    python benchmarks/measure_size.py [shards] [rows] [columns]

Prints a table, which takes minutes and less than 1 GB of disk. Each size is opened in a separate
process, as one rank. Seconds are CPU time, summed over all threads. Memory is the peak increase
since before opening, excluding mapped files. The exponent is computed from the second and third
sizes; 1 means linear growth.

The indexes are those that the writer would write. Their shards are links to a few real files,
because a million files would measure the file system.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend import ExactOrder, MDSWriter, StreamingDataLoader, StreamingDataset
from mdstorm_backend.format.index import FileInfo, Index

BATCH_SIZE = 1024
ROWS_OF_SMALL_SHARD, ROWS_OF_SHARD = 100, 1_000_000
#: Number of rows in a wide table and in its batches. A batch with 10,000 columns takes 10 MB.
WIDE_ROWS, WIDE_BATCH = 1024, 256
#: Maximum number of hard links to the shard. Common file systems allow fewer links to a file than
#: the largest index has shards.
MOST_LINKS = 1000
SECONDS_BETWEEN_LOOKS = 0.002

Figures = dict[str, float]


def write(folder: Path, rows: int, columns: int) -> None:
    """Write a dataset with one shard."""
    values = np.random.default_rng(0).random(rows, np.float32)
    table = pa.table({f"column_{number:05}": values for number in range(columns)})
    with MDSWriter(out=str(folder), size_limit=1 << 31) as writer:
        writer.write_batch(table)


def repeat(folder: Path, shards: int) -> None:
    """List a dataset's only shard this many times in its index, under different names."""
    path = folder / "index.json"
    index = Index.from_bytes(path.read_bytes(), url=str(folder))
    (shard,) = index.shards
    names = [f"part-{number:07}.mds" for number in range(shards)]
    for name in names[:MOST_LINKS]:
        os.link(folder / shard.raw_data.basename, folder / name)
    files = (FileInfo(name, shard.raw_data.bytes, {}) for name in names)
    path.write_bytes(
        replace(index, shards=tuple(replace(shard, raw_data=file) for file in files)).to_bytes()
    )


def with_shards(folder: Path, shards: int) -> dict[str, Any]:
    """Write many small shards with ten columns, to be read in stored order."""
    write(folder, ROWS_OF_SMALL_SHARD, 10)
    repeat(folder, shards)
    return {"batch_size": BATCH_SIZE, "order": ["in order"]}


def with_rows(folder: Path, rows: int) -> dict[str, Any]:
    """Write many rows with one number each, to be shuffled over the whole epoch."""
    write(folder, ROWS_OF_SHARD, 1)
    repeat(folder, rows // ROWS_OF_SHARD)
    return {"batch_size": BATCH_SIZE, "order": ["window", rows]}


def with_columns(folder: Path, columns: int) -> dict[str, Any]:
    """Write a wide table."""
    write(folder, WIDE_ROWS, columns)
    return {"batch_size": WIDE_BATCH, "order": ["in order"]}


#: The growing dimensions, each with its title, the function that writes the data, and the sizes.
GROWING: dict[str, tuple[str, Callable[[Path, int], dict[str, Any]], list[int]]] = {
    "shards": ("shards, in order", with_shards, [10**4, 10**5, 10**6]),
    "rows": ("rows, shuffled over the epoch", with_rows, [10**6, 10**7, 10**8]),
    "columns": ("columns, in order", with_columns, [10**2, 10**3, 10**4]),
}
TITLES = {"open_s": "open", "first_s": "first batch", "memory_bytes": "memory"}


class Memory:
    """The peak memory of this process since the object was created, excluding mapped files."""

    def __init__(self) -> None:
        self._before = self._most = _anonymous()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            self._most = max(self._most, _anonymous())
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def more(self) -> int:
        """Return the number of bytes by which the memory grew."""
        return max(self._most, _anonymous()) - self._before


def _anonymous() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def read_first_batch(folder: str, batch_size: int, order: list[Any]) -> Figures:
    """Open a dataset as one rank does, and read its first batch."""
    exact = ExactOrder() if order == ["in order"] else ExactOrder(seed=1, window=order[1])
    memory, start = Memory(), time.process_time()
    dataset = StreamingDataset(local=folder, batch_size=batch_size, order=exact)
    loader = StreamingDataLoader(dataset, batch_size=batch_size)
    assert len(loader)
    opened = time.process_time()
    batch = next(iter(loader))
    first = time.process_time()
    assert len(next(iter(batch.values()))) == batch_size
    return {"open_s": opened - start, "first_s": first - opened, "memory_bytes": memory.more()}


def measure(kind: str, size: int) -> Figures:
    """Write a dataset and read it in a separate process."""
    folder = Path(tempfile.mkdtemp(prefix="mdstorm-size-"))
    try:
        options = GROWING[kind][1](folder, size)
        command = [sys.executable, __file__, "read", str(folder), json.dumps(options)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found: Figures = json.loads(done.stdout)
        return found
    finally:
        shutil.rmtree(folder)


def exponent(sizes: list[int], values: list[float]) -> float:
    """Return the growth exponent of a figure between the last two sizes."""
    return math.log(values[-1] / values[-2]) / math.log(sizes[-1] / sizes[-2])


def shown(name: str, value: float) -> str:
    if name == "memory_bytes":
        return f"{value / 1e6:,.0f} MB"
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms"


def main() -> None:
    if sys.argv[1:2] == ["read"]:
        print(json.dumps(read_first_batch(sys.argv[2], **json.loads(sys.argv[3]))))
        return
    print("| what grows | sizes | | smallest | middle | largest | exponent |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for kind in sys.argv[1:] or GROWING:
        title, _, sizes = GROWING[kind]
        found = [measure(kind, size) for size in sizes]
        numbers = ", ".join(f"{size:,}" for size in sizes)
        for name, words in TITLES.items():
            values = [figures[name] for figures in found]
            cells = [shown(name, value) for value in values]
            cells.append(f"{exponent(sizes, values):.2f}")
            print(f"| {title} | {numbers} | {words} | {' | '.join(cells)} |", flush=True)
            title = numbers = ""


if __name__ == "__main__":
    main()
