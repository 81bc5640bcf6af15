"""Memory use for reading does not grow with the dataset size or over time."""

import gc
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.kit.loaders import torch_loader
from tests.kit.small_datasets import array_of, write_dataset

from mdstorm_backend.datasets.dataset import Dataset

pytestmark = [pytest.mark.newest, pytest.mark.long]

FIXED: dict[str, Any] = {"x": array_of("double")}
VARIABLE: dict[str, Any] = {"x": array_of("double"), "word": "string"}
#: If readers kept all rows, twice the rows would take 40 MB more. On a busy machine, the memory
#: used for reading ahead varies by up to 15 MB.
TOLERANCE = 20_000_000


def rows(count: int, fields: dict[str, Any]) -> pa.Table:
    values = np.arange(count * 8, dtype=np.float64)
    matrix = pa.FixedSizeListArray.from_arrays(pa.array(values), 8)
    columns = {"x": matrix.cast(pa.list_(pa.float64()))}
    if "word" in fields:
        columns["word"] = pa.array(np.arange(count)).cast(pa.string())
    return pa.table(columns)


@pytest.fixture(scope="module", params=["fixed", "variable", "zstd"])
def sizes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Dataset, Dataset]:
    """A dataset with more rows than threads read ahead, and one with twice as many rows."""
    fields = VARIABLE if request.param == "variable" else FIXED
    compression = "zstd:1" if request.param == "zstd" else None
    directory: Path = tmp_path_factory.mktemp(request.param)
    options: dict[str, Any] = {"shard_size": 500_000, "compression": compression}
    small, large = (
        write_dataset(directory / str(count), rows(count, fields), fields, **options)
        for count in (512_000, 1_024_000)
    )
    return small, large


def most_memory(batches: Iterable[Any]) -> int:
    """Return the peak number of bytes that Python, NumPy and Arrow allocate for all batches."""
    gc.collect()
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        arrow = 0
        for _ in batches:
            arrow = max(arrow, pa.total_allocated_bytes() - before)
        return tracemalloc.get_traced_memory()[1] + arrow
    finally:
        tracemalloc.stop()


SHUFFLED = {"seed": 1, "shuffle_shards": True, "window": 10_000}


@pytest.mark.parametrize("shuffle", [{}, SHUFFLED], ids=["in order", "shuffled"])
def test_memory_stays_constant_for_larger_datasets_and_more_epochs(
    sizes: tuple[Dataset, Dataset], shuffle: dict[str, Any]
) -> None:
    small, large = sizes

    def read(dataset: Dataset, num_epochs: int) -> int:
        loader = torch_loader(dataset, batch_size=512, num_epochs=num_epochs, shuffle=shuffle)
        return most_memory(loader)

    read(small, 1)  # one-time allocations
    once = read(small, 1)
    assert read(large, 1) < once + TOLERANCE
    assert read(small, 6) < once + TOLERANCE


def test_finished_passes_are_freed(sizes: tuple[Dataset, Dataset]) -> None:
    small, _ = sizes
    loader = torch_loader(small, batch_size=4096, columns=["x"])

    def passes(count: int) -> int:
        for _ in range(count):
            for _ in loader:
                pass
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first = passes(2)
        assert passes(10) < first + 50_000
    finally:
        tracemalloc.stop()
