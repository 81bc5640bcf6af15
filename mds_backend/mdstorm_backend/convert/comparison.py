"""`compare`: check whether two datasets hold the same rows, in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from mdstorm_backend.base.shard_threads import each
from mdstorm_backend.convert.compared_rows import ComparedRows, MDSRows, ParquetRows
from mdstorm_backend.convert.differing_rows import RowDifference, find_examples
from mdstorm_backend.convert.mds_plan import chosen_fields
from mdstorm_backend.convert.row_sums import HashedRows, RowSums
from mdstorm_backend.display import Progress, progress
from mdstorm_backend.format.type_plan import check_float_dtype
from mdstorm_backend.format.values.decimals import check_decimals
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read.source import SampleSource


@dataclass(frozen=True)
class ColumnDifference:
    """How a column differs.

    Attributes
    ----------
    column : str
        Its name.
    problem : str
        ``"is missing in …"``, ``"is double in … and float in …"`` or ``"has other values"``.
    """

    column: str
    problem: str


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    source, other : str
        URLs of the two datasets.
    source_rows, other_rows : int
        Their numbers of rows.
    columns : tuple of ColumnDifference
        Columns that are missing, have another type, or have other values. The last is not reported
        if the numbers of rows differ, or if the values of every column only come in other rows.
    examples : tuple of RowDifference
        A few rows that only one of them has, and how they differ.
    """

    source: str
    other: str
    source_rows: int
    other_rows: int
    columns: tuple[ColumnDifference, ...] = ()
    examples: tuple[RowDifference, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether both hold the same rows."""
        return not (self.columns or self.examples) and self.source_rows == self.other_rows

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; values of examples are strings."""
        return {
            **vars(self),
            "is_same": self.is_same,
            "columns": list(map(vars, self.columns)),
            "examples": [example.to_json() for example in self.examples],
        }


def compare(
    source: SampleSource | ParquetDataset | ComparedRows,
    other: SampleSource | ParquetDataset | ComparedRows,
    *,
    columns: Sequence[str] | None = None,
    dtype: str | None = None,
    decimals: str | None = None,
    threads: int | None = None,
    on_progress: Progress = None,
) -> Comparison:
    """Check whether two datasets hold the same rows, in any order and equally often.

    Every value of both is read and hashed, in bounded memory. Floating-point numbers are compared
    bit by bit, but all NaNs are equal. If rows differ, they are read once more to find examples.

    Parameters
    ----------
    source, other : Dataset, ParquetDataset or ComparedRows
        The two datasets.
    columns : sequence of str, optional
        Columns to compare; by default all, and a column that only one of them has is a difference.
    dtype : {"float32", "float64", None}
        The type to which a conversion cast the floating-point scalars and array elements of
        `source`: they are cast before they are compared.
    decimals : {"float64", "float32", "decimal", None}
        What a conversion made of the decimals of `source`, in the same manner.
    threads : int, optional
        Shards and row groups to read at a time; by default one per CPU core, at most 8.
    on_progress : callable or bool, optional
        Called with the number of shards and row groups read, of both, and the total; by default a
        terminal or a notebook shows it. False for silence.

    Raises
    ------
    MissingColumnError
        If neither has one of `columns`.
    CorruptDatasetError
        If a file is damaged.
    """
    check_float_dtype(dtype)
    check_decimals(decimals)
    first, second = _rows_of(source).with_floats(dtype, decimals), _rows_of(other)
    wanted = list(dict.fromkeys([*first.types, *second.types]))
    if columns is not None:
        both = pa.schema([(name, pa.null()) for name in wanted])
        wanted = chosen_fields(both, columns).names
    differences = [d for name in wanted for d in _type_differences(name, first, second)]
    excluded = {difference.column for difference in differences}
    names = [name for name in wanted if name not in excluded]
    sums = RowSums(names), RowSums(names)
    if names:
        tasks = [
            partial(_add, rows, part, names, total)
            for rows, total in zip((first, second), sums, strict=True)
            for part in range(rows.num_parts)
        ]
        with progress("Comparing rows", "shards", on_progress) as shown:
            for _ in each(lambda task: task(), tasks, threads, shown):
                pass
    changed = sums[0].differing_columns(sums[1])
    examples: tuple[RowDifference, ...] = ()
    buckets = sums[0].differing_buckets(sums[1])
    if len(buckets):
        examples = find_examples(first, second, names, changed, buckets, threads)
    if first.num_rows == second.num_rows:  # otherwise every column differs
        differences += [ColumnDifference(name, "has other values") for name in changed]
    return Comparison(
        first.url,
        second.url,
        first.num_rows,
        second.num_rows,
        tuple(differences),
        examples,
    )


def _rows_of(source: SampleSource | ParquetDataset | ComparedRows) -> ComparedRows:
    if isinstance(source, ComparedRows):
        return source
    return ParquetRows(source) if isinstance(source, ParquetDataset) else MDSRows(source)


def _type_differences(
    name: str, first: ComparedRows, second: ComparedRows
) -> list[ColumnDifference]:
    for rows in (first, second):
        if name not in rows.types:
            return [ColumnDifference(name, f"is missing in {rows.url}")]
    found, expected = first.types[name], second.types[name]
    if found == expected:
        return []
    problem = f"is {found} in {first.url} and {expected} in {second.url}"
    return [ColumnDifference(name, problem)]


def _add(rows: ComparedRows, part: int, names: Sequence[str], sums: RowSums) -> None:
    for arrays in rows.batches(part, names):
        sums.add(HashedRows(names, arrays))
