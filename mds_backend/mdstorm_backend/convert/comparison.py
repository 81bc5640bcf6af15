"""`compare`: check whether two datasets hold the same rows, with examples of differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.base.pools import each
from mdstorm_backend.convert import parquet_to_mds
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.display import Progress, counted, progress
from mdstorm_backend.format import Batch, check_decimals, check_float_dtype
from mdstorm_backend.format.values import arrow_types, nested_lists
from mdstorm_backend.format.values.python_objects import python_objects
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import batch_formats

_MOST_EXAMPLES = 3
_MOST_TEXT = 80
#: Maximum number of rows to read at a time.
_MOST_ROWS = 1 << 14
_FLOATS: dict[str | None, pa.DataType] = {"float32": pa.float32(), "float64": pa.float64()}


@dataclass(frozen=True)
class ColumnDifference:
    """How a column differs between two datasets.

    Attributes
    ----------
    column : str
        Name of the column.
    problem : str
        ``"is missing in …"``, ``"is double in … and float in …"`` or ``"differs in 5 rows"``.
    rows : int
        Number of differing rows, among those that both datasets have.
    examples : tuple of (int, object, object)
        The first few differing rows: the row number and the values in both datasets.
    """

    column: str
    problem: str
    rows: int = 0
    examples: tuple[tuple[int, Any, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, with the values of examples as shortened strings."""
        shown = [[row, _shown(left), _shown(right)] for row, left, right in self.examples]
        return {**vars(self), "examples": shown}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`.

    Attributes
    ----------
    source, other : str
        URLs of the two datasets.
    source_rows, other_rows : int
        Number of rows in each dataset.
    columns : tuple of ColumnDifference
        Columns that are missing from one dataset, or differ in type or in at least one value.
    """

    source: str
    other: str
    source_rows: int
    other_rows: int
    columns: tuple[ColumnDifference, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether both datasets hold the same rows."""
        return not self.columns and self.source_rows == self.other_rows

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        columns = [column.to_json() for column in self.columns]
        return {**vars(self), "is_same": self.is_same, "columns": columns}


@dataclass(frozen=True)
class ComparedRows:
    """One side of a comparison.

    Attributes
    ----------
    dataset : SampleDataset
        The dataset.
    types : mapping of str to pyarrow.DataType
        Column types; see `plain_type`.
    arrow : callable
        Converts columns of a batch to these types, given the batch and the column names.
    """

    dataset: SampleDataset
    types: Mapping[str, pa.DataType]
    arrow: Callable[[Batch, Sequence[str]], list[pa.Array]]

    @property
    def url(self) -> str:
        """URL of the dataset, for messages."""
        return self.dataset.url

    def batches(self, samples: range, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the columns `names` of consecutive samples."""
        row_bytes = self.dataset.nbytes / max(len(self.dataset), 1)
        rows = parquet_to_mds.rows_of_a_batch(row_bytes, _MOST_ROWS)
        for batch in self.dataset.stored_batches(samples, names, rows):
            yield pa.RecordBatch.from_arrays(self.arrow(batch, names), names)


def compared_rows(dataset: SampleDataset) -> ComparedRows:
    """Return a dataset's rows for comparison; images and pickles in MDS remain encoded bytes."""
    if isinstance(dataset, ParquetDataset):
        return ComparedRows(dataset, _types_of(dataset.arrow_schema), _plain_columns)

    def arrow(batch: Batch, names: Sequence[str]) -> list[pa.Array]:
        found = batch_formats.to_record_batch(batch, dataset.schema.select(names))
        return [arrow_types.plain_values(values) for values in found.columns]

    return ComparedRows(dataset, _types_of(dataset.schema.arrow_schema), arrow)


def _types_of(schema: pa.Schema) -> dict[str, pa.DataType]:
    fields = parquet_to_mds.without_vectors(schema)
    return {field.name: arrow_types.plain_type(field.type) for field in fields}


def _plain_columns(batch: Mapping[str, Any], names: Sequence[str]) -> list[pa.Array]:
    """Return columns stored in Parquet, with Spark's vectors as lists."""
    return [
        arrow_types.vectors_to_lists(batch[name])
        if arrow_types.holds_vectors(batch[name].type)
        else arrow_types.plain_values(batch[name])
        for name in names
    ]


def compare(
    source: SampleDataset | ComparedRows,
    other: SampleDataset | ComparedRows,
    *,
    columns: Sequence[str] | None = None,
    dtype: str | None = None,
    decimals: str | None = None,
    threads: int | None = None,
    on_progress: Progress = None,
) -> Comparison:
    """Check whether two datasets hold the same rows in the same order.

    Every value of both datasets is read, in bounded memory. Floating-point numbers are compared bit
    by bit, except that all NaNs are equal. A null equals only a null.

    Parameters
    ----------
    source, other : SampleDataset or ComparedRows
        The two datasets.
    columns : sequence of str, optional
        Columns to compare; by default all, where a column in only one dataset is a difference.
    dtype : {"float32", "float64", None}
        The type to which a conversion cast the floating-point scalars and array elements of
        `source`; they are cast to it before the comparison.
    decimals : {"float64", "float32", "decimal", None}
        The same for the decimals of `source`.
    threads : int, optional
        Number of shards or row groups to compare at a time; by default one per CPU core, at most 8.
    on_progress : callable or bool, optional
        Called with the number of shards or row groups compared and their total, both for the
        dataset that has fewer; by default a terminal or a notebook shows it. False for silence.

    Raises
    ------
    MissingColumnError
        If one of `columns` is in neither dataset.
    CorruptDatasetError
        If a file is damaged.
    """
    check_float_dtype(dtype)
    check_decimals(decimals)
    first, second = (
        one if isinstance(one, ComparedRows) else compared_rows(one) for one in (source, other)
    )
    wanted = list(dict.fromkeys([*first.types, *second.types]))
    if columns is not None:
        both = pa.schema([(name, pa.null()) for name in wanted])
        wanted = parquet_to_mds.chosen_fields(both, columns).names
    types = dict(first.types)
    for name, type_ in types.items():
        is_decimal = arrow_types.holds_decimals(type_)
        cast = _FLOATS.get(decimals if is_decimal else dtype)
        if cast and (is_decimal or pa.types.is_floating(nested_lists.element_type(type_))):
            types[name] = nested_lists.list_type(cast, nested_lists.depth_of(type_))
    problems = {name: _problem(name, types, first.url, second) for name in wanted}
    names = [name for name, problem in problems.items() if not problem]
    numbers = dict.fromkeys(names, 0)
    examples: dict[str, list[tuple[int, Any, Any]]] = {name: [] for name in names}
    rows = len(first.dataset), len(second.dataset)
    # Each row range ends where a shard ends in the dataset with fewer shards.
    fewer = min(first.dataset, second.dataset, key=lambda dataset: len(dataset.shard_sizes))
    ends = {min(end, *rows) for end in fewer.bounds.tolist()}
    ranges = [range(*ends) for ends in pairwise(sorted(ends))] if names else []
    differing = partial(_differing_rows, first, second, {name: types[name] for name in names})
    with progress("Comparing rows", "shards", on_progress) as shown:
        for found in each(lambda samples: list(differing(samples)), ranges, threads, shown):
            for name, number, values in found:
                numbers[name] += number
                examples[name] += values[: _MOST_EXAMPLES - len(examples[name])]
    problems |= {name: f"differs in {counted(n, 'row')}" for name, n in numbers.items() if n}
    differences = tuple(
        ColumnDifference(name, problem, numbers.get(name, 0), tuple(examples.get(name, ())))
        for name, problem in problems.items()
        if problem
    )
    return Comparison(first.url, second.url, *rows, differences)


def _problem(name: str, types: Mapping[str, pa.DataType], url: str, second: ComparedRows) -> str:
    """Return the reason why a column cannot be compared, or "" if it can be compared."""
    for where, columns in ((url, types), (second.url, second.types)):
        if name not in columns:
            return f"is missing in {where}"
    found, other = types[name], second.types[name]
    return "" if found == other else f"is {found} in {url} and {other} in {second.url}"


def _differing_rows(
    first: ComparedRows,
    second: ComparedRows,
    types: Mapping[str, pa.DataType],
    samples: range,
) -> Iterator[tuple[str, int, list[tuple[int, Any, Any]]]]:
    """Yield each differing column with its number of differing rows and the first few values."""
    start = samples.start
    for left, right in _in_step(*(side.batches(samples, [*types]) for side in (first, second))):
        for name, type_ in types.items():
            a, b = left.column(name), right.column(name)
            if type_ != first.types[name]:
                a = (
                    arrow_types.decimals_to_floats(a, type_)
                    if arrow_types.holds_decimals(a.type)
                    else a.cast(type_)
                )
            positions = np.flatnonzero(differing(a, b))
            if len(positions):
                some = positions[:_MOST_EXAMPLES].tolist()
                with python_objects(name, a, start), python_objects(name, b, start):
                    values = [(start + place, a[place].as_py(), b[place].as_py()) for place in some]
                yield name, len(positions), values
        start += left.num_rows


def _in_step(
    left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Cut the batches of both sides to the same sizes, and yield them in pairs."""
    for first in left:
        while first.num_rows:
            second = next(right)
            rows = min(first.num_rows, second.num_rows)
            yield first.slice(0, rows), second.slice(0, rows)
            first = first.slice(rows)
            right = chain([second.slice(rows)], right) if rows < second.num_rows else right


def differing(left: pa.Array, right: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows in which two arrays, of any nested type, differ."""
    types, type_ = pa.types, left.type
    valid, other = (np.asarray(values.is_valid()) for values in (left, right))
    both: npt.NDArray[np.bool_] = valid & other
    differ: npt.NDArray[np.bool_] = valid != other
    if not both.any():
        return differ
    if type_.id != right.type.id:  # arrays that each store their own dtype: the sides may differ
        differ |= both
    elif types.is_struct(type_):
        for ours, theirs in zip(left.flatten(), right.flatten(), strict=True):
            differ |= both & differing(ours, theirs)
    elif types.is_list(type_) or types.is_map(type_):
        lengths, others = (np.diff(np.asarray(values.offsets)) for values in (left, right))
        differ |= both & (lengths != others)
        same = np.flatnonzero(both & ~differ)
        inside = differing(
            *(nested_lists.children_of(values.take(pa.array(same))) for values in (left, right))
        )
        differ[np.repeat(same, lengths[same])[inside]] = True
    else:
        unequal = pc.not_equal(_by_bits(left), _by_bits(right))
        differ |= both & np.asarray(pc.fill_null(unequal, False))
    return differ


def _by_bits(values: pa.Array) -> pa.Array:
    """Return floating-point numbers as bits, with a single NaN; return other values unchanged."""
    if not pa.types.is_floating(values.type):
        return values
    numbers = np.array(values.to_numpy(zero_copy_only=False))
    numbers[np.isnan(numbers)] = np.nan
    return pa.array(numbers.view(f"u{numbers.itemsize}"))
