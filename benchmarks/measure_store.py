"""Reading from a store with latency, compared with plain GETs of the same objects.

    python measure_store.py [WORD ...]

Measures the cases whose names contain one of the words, by default all of them, which takes some
minutes. Time is stretched so that a busy machine does not look like a slow store: the store's
latency is multiplied by STRETCH, its bandwidth is divided by it, and so are all measured times.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mdstorm_backend import (
    ExactOrder,
    MDSWriter,
    StreamingDataLoader,
    StreamingDataset,
    open_dataset,
)

STRETCH = 8
LATENCY = 0.05
LINK = 100e6
CONNECTION = 50e6
DATASET_BYTES = 256 << 20
IMAGE_BYTES = 100_000
COLUMNS = 26
CONNECTIONS = 16
FOLDER = Path(tempfile.gettempdir()) / "mdstorm-store"


class Case(NamedTuple):
    """A case: a table, the shard size in MiB, the batch size, dataset arguments, and workers."""

    name: str
    table: str
    shard_mib: float
    batch_size: int
    options: dict[str, Any]
    workers: int = 0


CASES = [
    Case("images, 64 MiB, in order", "images", 64, 64, {}),
    Case("images, 64 MiB, shuffled", "images", 64, 64, {"shuffle": True, "shuffle_seed": 1}),
    Case("images, 1 MiB, in order", "images", 1, 64, {}),
    Case("numbers, 64 MiB, in order", "numbers", 64, 1024, {}),
    Case("numbers, 1 MiB, in order", "numbers", 1, 1024, {}),
    Case("exact, numbers, 64 MiB, in order", "numbers", 64, 1024, {"order": ExactOrder()}),
    Case("exact, numbers, 64 MiB, window", "numbers", 64, 1024, {"order": ExactOrder(1, window=1)}),
    Case("exact, images, 64 MiB, in order", "images", 64, 64, {"order": ExactOrder()}),
    Case("exact, images, 1 MiB, in order", "images", 1, 64, {"order": ExactOrder()}),
]
#: Read from a store that answers one request after another.
QUEUED = [
    Case("queue, small shards", "small", 1 / 128, 512, {}),
    Case("queue, small shards, 2 workers", "small", 1 / 128, 512, {}, workers=2),
]
QUEUED_LATENCY = 0.005


def images() -> pa.Table:
    """Return a table of random bytes in chunks the size of a small photo."""
    content = np.random.default_rng(0).bytes(IMAGE_BYTES * (DATASET_BYTES // IMAGE_BYTES))
    cut = range(0, len(content), IMAGE_BYTES)
    return pa.table({"image": [content[start : start + IMAGE_BYTES] for start in cut]})


def numbers() -> pa.Table:
    """Return a table of random float32 numbers."""
    rows = DATASET_BYTES // (4 * COLUMNS)
    values = np.random.default_rng(0).random((COLUMNS, rows), np.float32)
    return pa.table({f"n{i:02}": column for i, column in enumerate(values)})


def small() -> pa.Table:
    """Return a small part of the numbers."""
    return numbers().select(range(4)).slice(0, 22000)


TABLES: dict[str, Callable[[], pa.Table]] = {"images": images, "numbers": numbers, "small": small}


class Store:
    """The slow store in a separate process."""

    def __init__(
        self,
        latency: float = LATENCY,
        link: float = LINK,
        connection: float = CONNECTION,
        at_once: int = 1000,
    ) -> None:
        figures = (latency * STRETCH, link / STRETCH, connection / STRETCH, at_once)
        program = [sys.executable, Path(__file__).with_name("slow_store.py"), FOLDER]
        self._process = subprocess.Popen(
            [*map(str, program), *map(str, figures)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = f"http://127.0.0.1:{self._line()}"

    def requests(self) -> list[list[Any]]:
        """Return the requests since the last call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: list[list[Any]] = json.loads(self._line())
        return found

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def write(case: Case) -> str:
    """Write the dataset for a case unless it exists; return its name in the store."""
    name = f"bucket/{case.table}-{case.shard_mib:g}"
    if not (FOLDER / name / "index.json").exists():
        with MDSWriter(out=str(FOLDER / name), size_limit=int(case.shard_mib * 2**20)) as writer:
            writer.write_batch(TABLES[case.table]())
    return name


def bare_gets(store: Store, name: str) -> float:
    """Return the seconds that it takes to GET all shards in full over several connections."""
    names: queue.SimpleQueue[str] = queue.SimpleQueue()
    for path in sorted((FOLDER / name).glob("*.mds")):
        names.put(path.name)

    def work() -> None:
        while not names.empty():
            try:
                url = f"{store.url}/{name}/{names.get_nowait()}"
            except queue.Empty:
                return
            with urllib.request.urlopen(url) as response:
                while response.read(1 << 20):
                    pass

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - start


def read(store: Store, case: Case, name: str) -> tuple[float, float]:
    """Return the seconds until the first and last batches of an epoch, starting without a cache."""
    options = {"endpoint_url": store.url, "key": "k", "secret": "s"}
    open_dataset(f"s3://{name}", storage_options=options)  # imports libraries and creates a client
    store.requests()
    with tempfile.TemporaryDirectory() as local:
        start = time.monotonic()
        dataset = StreamingDataset(
            remote=f"s3://{name}",
            local=local,
            batch_size=case.batch_size,
            storage_options=options,
            **case.options,
        )
        first = None
        loader = StreamingDataLoader(dataset, batch_size=case.batch_size, num_workers=case.workers)
        for _ in loader:
            first = first or time.monotonic() - start
        assert first is not None
        return first, time.monotonic() - start


def measure(store: Store, case: Case) -> str:
    """Measure a case, and return a row for the table."""
    name = write(case)
    bare = bare_gets(store, name)
    first, whole = read(store, case, name)
    requests = store.requests()
    data = [when for when, _, what, sent in requests if ".mds" in what and sent]
    before = [method for when, method, *_ in requests if when < min(data)]
    size = sum(path.stat().st_size for path in (FOLDER / name).glob("*.mds"))
    moved = sum(sent for *_, sent in requests) / size
    link = size / LINK * STRETCH
    cells = [
        f"{case.name:34}",
        f"{bare / whole:5.0%} {link / whole:5.0%} {link / bare:5.0%}",
        f"{first / STRETCH:6.2f} s {whole / STRETCH:6.2f} s",
        f"{moved:5.2f} {len(requests):5}  {' '.join(before)}",
    ]
    return "  ".join(cells)


def main() -> None:
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    words = sys.argv[1:]
    print(f"{'':34}  share of   link  (GETs)  first   epoch   moved requests, before first data")
    for queued, cases in ((False, CASES), (True, QUEUED)):
        store = Store(QUEUED_LATENCY, at_once=1) if queued else Store()
        try:
            for case in cases:
                if not words or any(word in case.name for word in words):
                    print(measure(store, case), flush=True)
        finally:
            store.close()


if __name__ == "__main__":
    main()
