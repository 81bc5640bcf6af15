"""A conversion takes memory for a shard and a batch, not for a row group nor for the dataset."""

import threading
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mdstorm_backend.convert import compare, convert_parquet, parquet_to_mds
from mdstorm_backend.parquet import ParquetDataset, open_parquet

ROWS = 60_000
#: Bytes of a row: 15 numbers of 8 bytes.
COLUMNS = 15
SHARD = 1 << 20


def source(directory: Path, copies: int) -> ParquetDataset:
    """One row group of `copies` times 7 MB."""
    directory.mkdir()
    numbers = np.arange(ROWS * copies) % 1000
    table = pa.table({f"c{i:02}": numbers + i for i in range(COLUMNS)})
    pq.write_table(table, directory / "0.parquet", row_group_size=len(table))
    return open_parquet(str(directory))


def most_memory(call: Callable[[], object]) -> int:
    """Bytes that were allocated at most, by Python, NumPy and Arrow."""
    done, most = threading.Event(), 0

    def watch() -> None:
        nonlocal most
        while not done.wait(0.001):
            most = max(most, pa.total_allocated_bytes() - before)

    before = pa.total_allocated_bytes()
    thread = threading.Thread(target=watch)
    tracemalloc.start()
    thread.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] + most
    finally:
        done.set()
        thread.join()
        tracemalloc.stop()


def test_memory_does_not_grow_with_a_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_to_mds, "_BATCH_BYTES", 1 << 20)
    small, large = source(tmp_path / "small", 1), source(tmp_path / "large", 6)

    def convert(dataset: ParquetDataset, name: str) -> int:
        target = str(tmp_path / name)
        return most_memory(partial(convert_parquet, dataset, target, shard_size=SHARD, workers=1))

    convert(small, "once and for all")
    # Six times the rows are 36 MB more.
    assert convert(large, "a") < convert(small, "b") + 12_000_000
    once, six = (
        most_memory(partial(compare, dataset, dataset, threads=1)) for dataset in (small, large)
    )
    assert six < once + 12_000_000
