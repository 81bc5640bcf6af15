"""`compare`: check whether two datasets hold the same rows, in any order, and find examples."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base.threads import each
from mdstorm_backend.convert.compared_rows import ComparedRows, MDSRows, ParquetRows
from mdstorm_backend.convert.parquet_to_mds import chosen_fields
from mdstorm_backend.convert.row_hashes import HashedRows, Hashes, RowSums
from mdstorm_backend.display import Progress, progress
from mdstorm_backend.format.type_plan import check_float_dtype
from mdstorm_backend.format.values.arrow_types import check_decimals
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read.shard import SampleSource


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


_MOST_EXAMPLES = 3
#: Rows are looked at if they are in the first of the buckets that differ,
_MOST_BUCKETS = 64
#: or among about this many that are chosen by the columns that do not differ.
_SAMPLED_ROWS = 50_000
_MOST_TEXT = 80


@dataclass(frozen=True)
class RowDifference:
    """A row that only one of two datasets has, or that has different values in each.

    Attributes
    ----------
    source_row, other_row : int or None
        Its number in each; None if it is missing.
    values : dict of str to pair
        The values in both: of the columns that differ, or of all columns if only one has the row.
    """

    source_row: int | None
    other_row: int | None
    values: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object; values are strings."""
        values = {name: [shown(a), shown(b)] for name, (a, b) in self.values.items()}
        return {**vars(self), "values": values}


@dataclass(frozen=True)
class _Kept:
    """Candidate rows: their numbers, hashes, and hashes without the changed columns."""

    numbers: npt.NDArray[np.int64]
    rows: Hashes
    keys: Hashes


def shown(value: Any) -> str:
    """Return a value as a string of bounded length."""
    text = repr(value)
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"


def find_examples(
    first: ComparedRows,
    second: ComparedRows,
    names: Sequence[str],
    changed: Sequence[str],
    buckets: npt.NDArray[np.int64],
    threads: int | None,
) -> tuple[RowDifference, ...]:
    """Find a few rows that differ.

    Parameters
    ----------
    first, second : ComparedRows
        The two sides.
    names : sequence of str
        The columns that are compared.
    changed : sequence of str
        The columns whose values differ; rows are matched by the others.
    buckets : numpy.ndarray
        Buckets in which rows differ, at least one.
    threads : int or None
        Parts that are read at a time.
    """
    found = [
        _Search(rows, names, changed, buckets[:_MOST_BUCKETS]).kept(threads)
        for rows in (first, second)
    ]
    only_first, only_second = _unmatched(*found), _unmatched(*found[::-1])
    has_key = 0 < len(changed) < len(names)
    pairs = list(_pairs(found, only_first, only_second)) if has_key else []
    if pairs:
        chosen = pairs[:_MOST_EXAMPLES]
        left = first.rows([a for a, _ in chosen], names)
        right = second.rows([b for _, b in chosen], names)
        return tuple(
            RowDifference(a, b, {name: (left[a][name], right[b][name]) for name in changed})
            for a, b in chosen
        )
    a_only = found[0].numbers[only_first[:_MOST_EXAMPLES]].tolist()
    b_only = found[1].numbers[only_second[:_MOST_EXAMPLES]].tolist()
    left, right = first.rows(a_only, names), second.rows(b_only, names)
    return (
        *(RowDifference(a, None, {n: (left[a][n], None) for n in names}) for a in a_only),
        *(RowDifference(None, b, {n: (None, right[b][n]) for n in names}) for b in b_only),
    )


@dataclass(frozen=True)
class _Search:
    """Reads one side again and keeps the candidate rows."""

    rows: ComparedRows
    names: Sequence[str]
    changed: Sequence[str]
    buckets: npt.NDArray[np.int64]

    def kept(self, threads: int | None) -> _Kept:
        parts = [
            kept
            for found in each(self._of_part, range(self.rows.num_parts), threads, None)
            for kept in found
        ]
        return _Kept(
            np.concatenate([np.zeros(0, np.int64), *(part.numbers for part in parts)]),
            np.concatenate([np.zeros((2, 0), np.uint64), *(part.rows for part in parts)], axis=1),
            np.concatenate([np.zeros((2, 0), np.uint64), *(part.keys for part in parts)], axis=1),
        )

    def _of_part(self, part: int) -> list[_Kept]:
        start, kept = self.rows.starts[part], []
        every = np.uint64(max(self.rows.num_rows // _SAMPLED_ROWS, 1))
        for arrays in self.rows.batches(part, self.names):
            hashed = HashedRows(self.names, arrays)
            keys = hashed.keys(self.changed)
            chosen = np.isin(hashed.buckets, self.buckets)
            if len(self.changed) < len(self.names):
                chosen |= keys[0] % every == 0
            where = np.flatnonzero(chosen)
            kept.append(_Kept(start + where, hashed.rows[:, where], keys[:, where]))
            start += len(chosen)
        return kept


def _unmatched(these: _Kept, those: _Kept) -> npt.NDArray[np.int64]:
    """Return positions of the rows that occur more often in `these` than in `those`."""
    left = Counter(_tuples(those.rows))
    places = []
    for place, row in enumerate(_tuples(these.rows)):
        if left[row] > 0:
            left[row] -= 1
        else:
            places.append(place)
    return np.array(places, np.int64)


def _pairs(
    found: Sequence[_Kept], first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Yield the numbers of rows that differ only in the changed columns."""
    by_key: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for place, key in zip(second[::-1], _tuples(found[1].keys[:, second[::-1]]), strict=True):
        by_key[key].append(int(place))
    for place, key in zip(first, _tuples(found[0].keys[:, first]), strict=True):
        if by_key[key]:
            yield int(found[0].numbers[place]), int(found[1].numbers[by_key[key].pop()])


def _tuples(hashes: Hashes) -> Iterable[tuple[int, int]]:
    return zip(hashes[0].tolist(), hashes[1].tolist(), strict=True)
