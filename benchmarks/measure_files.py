"""Files that a column names, read from a store with latency, compared with bare requests.

    python measure_files.py [ROUNDS [STRETCH]]

Alternates bare GETs by threads, s3fs in as many threads, `StreamingDataset(files=)`, and a PyTorch
``DataLoader`` with 8 processes over the same paths. Time is stretched as in `measure_store`.
"""

from __future__ import annotations

import http.client
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import local as thread_local
from typing import Any
from urllib.parse import urlsplit

import fsspec
import numpy as np
from measure_store import FOLDER, STRETCH, Store
from torch.utils.data import DataLoader, Dataset

from mdstorm_backend import ExactOrder, MDSWriter, StreamingDataLoader, StreamingDataset
from mdstorm_backend.read.file_reader import THREADS

LATENCY = 0.02
FILES, FILE_BYTES, BATCH = 1000, 100_000, 64
PATHS = [f"bucket/files/{number:05}.bin" for number in range(FILES)]
#: The figures of a round, and the seconds until the first batch.
Figures = tuple[float, float]

_here = thread_local()


def write() -> None:
    """Write the files unless they exist."""
    random = np.random.default_rng(0)
    (FOLDER / "bucket/files").mkdir(parents=True, exist_ok=True)
    for path in PATHS:
        if not (FOLDER / path).exists():
            (FOLDER / path).write_bytes(random.bytes(FILE_BYTES))


def get(url: str, path: str) -> bytes:
    """Return an object's content over this thread's connection."""
    if not hasattr(_here, "connection"):
        _here.connection = http.client.HTTPConnection(urlsplit(url).netloc)
    _here.connection.request("GET", f"/{path}")
    found: bytes = _here.connection.getresponse().read()
    return found


def by_threads(get_one: Callable[[str], bytes]) -> Figures:
    """Read all files with as many threads as mdstorm."""
    start = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        found = pool.map(get_one, PATHS)
        first = [next(found) for _ in range(BATCH)] and time.monotonic() - start
        assert sum(map(len, found)) == (FILES - BATCH) * FILE_BYTES
    return first, time.monotonic() - start


class Paths(Dataset[bytes]):
    """The files for PyTorch's own loader."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __len__(self) -> int:
        return FILES

    def __getitem__(self, number: int) -> bytes:
        return get(self.url, PATHS[number])


def by_processes(url: str) -> Figures:
    """Read all files with 8 worker processes."""
    loader = DataLoader(Paths(url), BATCH, num_workers=8, collate_fn=list)
    return timed(loader, lambda batch: len(batch))


def by_mdstorm(options: dict[str, str], folder: str) -> Figures:
    """Read all files as a column."""
    dataset = StreamingDataset(
        local=folder,
        order=ExactOrder(),
        files={"content": "path"},
        files_below={"s3://bucket/files/": options},
    )
    return timed(StreamingDataLoader(dataset, BATCH), lambda batch: len(batch["content"]))


def timed(batches: Any, count: Callable[[Any], int]) -> Figures:
    """Return the seconds until the first batch, and until all of them have been read."""
    start, first, rows = time.monotonic(), 0.0, 0
    for batch in batches:
        first = first or time.monotonic() - start
        rows += count(batch)
    assert rows == FILES
    return first, time.monotonic() - start


def main() -> None:
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    write()
    rounds, stretch = map(int, [*sys.argv[1:], 3, STRETCH][:1] + [*sys.argv[2:], STRETCH][:1])
    store = Store(LATENCY * stretch / STRETCH, 1e12, 1e12)
    options = {"endpoint_url": store.url, "key": "k", "secret": "s"}
    s3 = fsspec.filesystem("s3", **options, config_kwargs={"max_pool_connections": THREADS})
    with tempfile.TemporaryDirectory() as folder:
        with MDSWriter(out=f"{folder}/data", columns={"path": "str"}) as writer:
            for path in PATHS:
                writer.write({"path": f"s3://{path}"})
        ways: dict[str, Callable[[], Figures]] = {
            "threads": partial(by_threads, partial(get, store.url)),
            "mdstorm": partial(by_mdstorm, options, f"{folder}/data"),
            "s3fs": partial(by_threads, s3.cat_file),
            "processes": partial(by_processes, store.url),
        }
        ways["mdstorm"]()  # imports libraries and creates a client
        found = [{name: way() for name, way in ways.items()} for _ in range(rounds)]
    store.close()
    for name in ways:
        first = statistics.median(figures[name][0] for figures in found) / stretch / LATENCY
        rate = statistics.median(FILES / figures[name][1] for figures in found) * stretch
        print(f"{name:10} {rate:8,.0f} files/s  first batch after {first:.1f} latencies")
    for name in ("threads", "s3fs", "processes"):
        shares = [figures[name][1] / figures["mdstorm"][1] for figures in found]
        print(f"mdstorm / {name}: {statistics.median(shares):.2f}")


if __name__ == "__main__":
    main()
