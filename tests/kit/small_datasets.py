"""Test datasets, written by the real writer without Spark."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend import open_dataset
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.format.type_plan import plan_types
from mdstorm_backend.format.values.arrow_types import SparkType, arrow_type
from mdstorm_backend.storage import Location
from mdstorm_backend.write.batch_shards import BatchShards
from mdstorm_backend.write.commit import publish
from mdstorm_backend.write.full_shard import ShardFormat, ShardReport, ShardStore
from mdstorm_backend.write.job_files import mark_directory
from mdstorm_backend.write.mds_writer import MDSWriter

Fields = Mapping[str, SparkType]
Columns = pa.Table | Mapping[str, Sequence[Any]]

#: A shard size at which the test datasets have several shards, each with several rows after a
#: header of about 1 KiB.
SMALL_SHARD = 2_000


def array_of(element: SparkType) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def map_of(key: SparkType, value: SparkType) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def struct_of(**fields: SparkType) -> dict[str, Any]:
    described = [{"name": n, "type": t, "nullable": True} for n, t in fields.items()]
    return {"type": "struct", "fields": described}


def plan(fields: Fields, dtype: str | None = None, *, nullable: bool = True) -> Schema:
    described = [{"name": n, "type": t, "nullable": nullable} for n, t in fields.items()]
    return plan_types(described, dtype)


def to_table(columns: Columns, fields: Fields) -> pa.Table:
    """Convert Python values to the Arrow data that Spark would pass to the writer."""
    if isinstance(columns, pa.Table):
        return columns
    return pa.table({n: pa.array(columns[n], arrow_type(t)) for n, t in fields.items()})


def store_batches(
    batches: Iterable[pa.RecordBatch],
    location: Location,
    schema: Schema,
    format_: ShardFormat,
    prefix: str,
) -> list[ShardReport]:
    """Write record batches as shards, without committing them."""
    store = ShardStore((location,), format_, prefix, max_workers=0)
    return store.store_rows(partial(BatchShards, schema, format_), batches)


def write_shards(
    directory: str | Path,
    columns: Columns,
    fields: Fields,
    *,
    shard_size: int = 1 << 20,
    batch_rows: int | None = None,
    dtype: str | None = None,
    nullable: bool = True,
    compression: str | None = None,
    prefix: str = "part-00000-0",
) -> list[ShardReport]:
    """Write shards like a single task in a job, without committing them."""
    location = Location.of(str(directory))
    mark_directory(location)
    return store_batches(
        to_table(columns, fields).combine_chunks().to_batches(max_chunksize=batch_rows),
        location,
        plan(fields, dtype, nullable=nullable),
        ShardFormat(shard_size, compression),
        prefix,
    )


def write_dataset(
    directory: str | Path,
    columns: Columns,
    fields: Fields,
    *,
    tasks: int = 1,
    dtype: str | None = None,
    nullable: bool = True,
    **options: Any,
) -> Dataset:
    """Write a dataset with `tasks` writers, each with an equal share of the rows, and open it."""
    table = to_table(columns, fields)
    bounds = np.linspace(0, len(table), tasks + 1).astype(int).tolist()
    reports = []
    for task, (start, stop) in enumerate(itertools.pairwise(bounds)):
        reports += write_shards(
            directory,
            table.slice(start, stop - start),
            fields,
            dtype=dtype,
            nullable=nullable,
            prefix=f"part-{task:05}-{task}",
            **options,
        )
    publish(Location.of(str(directory)), plan(fields, dtype, nullable=nullable), reports)
    return open_dataset(str(directory))


def write_numbers(directory: str | Path, rows: int, **options: Any) -> Dataset:
    """Write consecutive int64 numbers starting at 0, in shards of a few rows each."""
    options = {"shard_size": SMALL_SHARD, **options}
    return write_dataset(directory, {"number": range(rows)}, {"number": "long"}, **options)


def write_ints(
    out: Any, numbers: Iterable[int] = range(3), *, name: str = "n", **options: Any
) -> MDSWriter:
    """Write integers one by one, as single-column samples."""
    with MDSWriter(columns={name: "int"}, out=out, **options) as writer:
        for number in numbers:
            writer.write({name: number})
    return writer


def same_values(found: pa.Table | pa.RecordBatch, expected: pa.Table) -> bool:
    """Whether all values are equal; NaN equals NaN and null equals null, but 0.0 is not -0.0."""
    return repr(found.to_pydict()) == repr(expected.to_pydict())


def numbers_in(location: str | Path, name: str = "n") -> list[Any]:
    """Return one column of a dataset."""
    return open_dataset(str(location)).to_table()[name].to_pylist()  # type: ignore[no-any-return]


class Huge(bytes):
    """Bytes whose `len` is 4 GiB."""

    def __len__(self) -> int:
        return 1 << 32


def files_in(directory: Path) -> list[str]:
    """Return the sorted relative paths of all files under a directory."""
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())
