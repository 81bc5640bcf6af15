"""Small Parquet datasets, and batches as readers produce them."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.kit.parquet_files import open_parquet

from mdstorm_backend.format.schema import Schema
from mdstorm_backend.format.values.batch import Batch
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import SampleSource


def write(
    directory: str | Path, table: pa.Table, *, rows: int | None = None, by: Sequence[str] = ()
) -> ParquetDataset:
    """Write a table in row groups of `rows` rows, or partitioned by the columns `by`."""
    if by:
        pq.write_to_dataset(table, str(directory), partition_cols=list(by))
    else:
        Path(directory).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, f"{directory}/part.parquet", row_group_size=rows or len(table) or 1)
    return open_parquet(str(directory))


def read_all(source: SampleSource, *, exact_nulls: bool = False) -> list[Batch]:
    """Return each of a source's shards as a batch."""
    return [
        source.shard(number).read(np.arange(size), source.schema.names, exact_nulls=exact_nulls)
        for number, size in enumerate(source.shard_sizes)
    ]


def batch_of(table: pa.Table) -> tuple[Batch, Schema]:
    """Return a table as the batch that readers pass to transforms, and its schema."""
    with tempfile.TemporaryDirectory() as directory:
        dataset = write(directory, table)
        return read_all(dataset)[0], dataset.schema


def column(source: SampleSource, name: str) -> list[Any]:
    """Return a column's values from all shards. They must not be null."""
    return [value for batch in read_all(source) for value in batch[name].tolist()]
