"""`ParquetShard`: a row group read as a shard, with columns in the same form as MDS shards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.base import warn_user
from mdstorm_backend.errors import ArgumentTypeError, CorruptDatasetError, EncodingRangeError
from mdstorm_backend.format import Column, Schema, is_number, plain_type, plain_values
from mdstorm_backend.format.encodings.numbers import to_numpy
from mdstorm_backend.format.values import nested_lists
from mdstorm_backend.format.values.arrow_types import cast
from mdstorm_backend.format.values.batch import (
    Batch,
    Values,
    concat_values,
    copy_values,
    take_values,
)
from mdstorm_backend.format.values.python_objects import first_failure, python_objects
from mdstorm_backend.parquet.footers import RowGroup
from mdstorm_backend.parquet.stored_columns import StoredColumns, read_errors
from mdstorm_backend.read.batch_formats import column_to_numpy
from mdstorm_backend.read.logical import to_logical
from mdstorm_backend.read.shard import Rows, Shard, contiguous

#: Errors of Arrow for values beyond the limits of one array, among other reasons.
_BEYOND_LIMITS = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
#: Rows beyond a limit are read in chunks of a fraction of their number: one in this many.
_SMALLER = 16


class ParquetShard(Shard):
    """One open row group. Thread-safe.

    A column is decoded when it is first read, or by `make_ready`, and kept as long as the shard is.
    Arrow arrays have limits, such as 2 GiB of text. A column that exceeds one has several chunks.

    Parameters
    ----------
    row_group : RowGroup
        The row group to read.
    schema : Schema
        The dataset's columns.
    columns : StoredColumns
        How the columns are stored.
    open_file : callable
        Opens the row group's file for a block, and checks that it does not change meanwhile.
    """

    def __init__(
        self,
        row_group: RowGroup,
        schema: Schema,
        columns: StoredColumns,
        open_file: Callable[[], AbstractContextManager[pq.ParquetFile]],
    ) -> None:
        self.num_samples = row_group.num_rows
        self.url = row_group.file_url
        self.schema = schema
        self._row_group = row_group
        self._columns = columns
        self._open_file = open_file
        self._lock = threading.Lock()
        self._plain: dict[str, list[pa.Array]] = {}
        self._outputs: dict[tuple[str, bool], list[Values]] = {}

    @property
    def memory(self) -> int:
        """Approximate number of bytes that decoded values take up in memory."""
        return max(self._row_group.nbytes, 1)

    def make_ready(self, columns: Sequence[str], *, exact_nulls: bool = False) -> None:
        """Decode columns ahead of use."""
        self._chunks(columns, exact_nulls=exact_nulls)

    def decoded(self, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch | None:
        """Return all samples of the given columns without copying; do not modify the values.

        Returns None if a column has several chunks.

        Raises
        ------
        CorruptDatasetError
            If the file is damaged.
        DatasetChangedError
            If the file was changed after the dataset was opened.
        DatasetNotFoundError
            If the file is missing.
        UnsupportedTableError
            If pyarrow does not support how the file is stored, or a column is encrypted.
        """
        found = self._chunks(columns, exact_nulls=exact_nulls)
        if any(len(chunks) > 1 for chunks in found.values()):
            return None
        return {name: chunks[0] for name, chunks in found.items()}

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Copy the given columns of the samples `rows` (ascending and unique).

        Raises
        ------
        CorruptDatasetError, DatasetChangedError, DatasetNotFoundError, UnsupportedTableError
            See `decoded`.
        InvalidArgumentError
            If the values are too large for one Arrow array.
        """
        found = self._chunks(columns, exact_nulls=exact_nulls)
        return {name: concat_values(_copies(chunks, rows), name) for name, chunks in found.items()}

    def _chunks(self, columns: Sequence[str], *, exact_nulls: bool) -> dict[str, list[Values]]:
        """Decode columns, each in at least one chunk."""
        with self._lock:
            missing = [name for name in columns if name not in self._plain]
            if missing:
                self._plain.update(self._decode(missing))
            for name in columns:
                if (name, exact_nulls) not in self._outputs:
                    column = self.schema[name]
                    values = [_to_output(column, part, exact_nulls) for part in self._plain[name]]
                    self._outputs[name, exact_nulls] = values
            return {name: self._outputs[name, exact_nulls] for name in columns}

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample: values as from `read`, but arrays as NumPy arrays, and nulls as None.

        Raises
        ------
        IndexError
            If `row` is out of range.
        ArgumentTypeError
            If the dataset has no such column.
        """
        row = index(row)
        if not 0 <= row < self.num_samples:
            raise IndexError(f"sample {row} of {self.num_samples} in {self.url}")
        names = self.schema.names if columns is None else tuple(columns)
        unknown = [name for name in names if name not in self.schema]
        if unknown:
            raise ArgumentTypeError(
                f"{self.url} has no columns {unknown}; its dataset has {list(self.schema.names)}"
            )
        found: dict[str, Any] = {}
        for name, values in self.read(np.array([row]), names, exact_nulls=True).items():
            with python_objects(name, values, row, self.url):
                found[name] = _value(self.schema[name], values)
        return found

    def _decode(self, columns: Sequence[str]) -> dict[str, list[pa.Array]]:
        self.schema.check_readable(columns, self.url)
        partition = self._row_group.partition
        stored = [name for name in columns if name not in partition]
        found = self._read_stored(stored) if stored else {}
        for name in partition.keys() & columns:
            values = self._columns.repeated(name, partition[name], self.num_samples)
            found[name] = [_plain(self.schema[name], values)]
        return found

    def _read_stored(self, columns: Sequence[str]) -> dict[str, list[pa.Array]]:
        """Read the live rows of the columns stored in the file, if possible in one chunk."""
        size: int | None = None
        with read_errors(self.url, columns):
            while True:
                try:
                    return self._read_in_chunks(columns, size)
                except (CorruptDatasetError, pa.ArrowException) as error:
                    if size == 1 or not isinstance(error.__cause__ or error, _BEYOND_LIMITS):
                        raise
                size = max((size or self._row_group.stored_rows) // _SMALLER, 1)

    def _read_in_chunks(
        self, columns: Sequence[str], size: int | None
    ) -> dict[str, list[pa.Array]]:
        """Read the live rows of the columns stored in the file, in chunks of at most `size`."""
        groups, found = [self._row_group], {name: list[pa.Array]() for name in columns}
        with self._open_file() as file:
            for _, live in self._columns.live_rows(file, groups, columns, batch_size=size):
                for name, values in live.items():
                    found[name].append(_plain(self.schema[name], values))
        return found


def _copies(chunks: Sequence[Values], rows: Rows) -> list[Values]:
    """Copy the values of ascending rows from each chunk that has some of them."""
    ends = np.cumsum([len(chunk) for chunk in chunks])
    cuts = np.searchsorted(rows, ends)
    copies = []
    for chunk, end, part in zip(chunks, ends, np.split(rows, cuts[:-1]), strict=True):
        if len(part) or len(chunks) == 1:
            inside = part - (end - len(chunk))
            span = contiguous(inside)
            copies.append(
                take_values(chunk, inside)
                if span is None
                else copy_values(chunk, span.start, span.stop)
            )
    return copies or [copy_values(chunks[0], 0, 0)]


def _value(column: Column, values: Values) -> Any:
    """Return the only value of a column."""
    if isinstance(values, np.ndarray):
        return values[0].copy()
    value = values[0]
    if not value.is_valid:
        return None
    if column.is_array:
        elements = nested_lists.elements_of(values)
        has_nulls = elements.null_count or nested_lists.null_lists_in(values)
        return value.as_py() if has_nulls else column_to_numpy(values, column)[0]
    # If nulls were not counted, columns are Arrow arrays even without nulls.
    is_time = pa.types.is_date(value.type) or pa.types.is_timestamp(value.type)
    if not column.has_nulls and (is_number(value.type) or is_time):
        return values.to_numpy(zero_copy_only=False)[0]
    return value.as_py()


def _plain(column: Column, values: pa.Array) -> pa.Array:
    """Convert a column's values to its `Column.arrow_type`.

    Timestamps are truncated to microseconds, with a warning if that loses nanoseconds.

    Raises
    ------
    EncodingRangeError
        If microseconds cannot hold a timestamp.
    """
    try:
        plain = plain_values(values)
    except pa.ArrowInvalid:
        if not _holds_times(values.type):
            raise
        options = pc.CastOptions(plain_type(values.type), allow_time_truncate=True)
        failure = first_failure(values, lambda v: v.cast(options=options), (pa.ArrowInvalid,))
        if failure is not None:
            row, error = failure
            raise EncodingRangeError(
                f"column {column.name!r} of {column.origin.url} holds a time in row {row} of "
                f"{len(values)} that microseconds cannot hold ({error}). Correct the row, or "
                "leave the column out",
                column=column.name,
            ) from error
        plain = values.cast(options=options)
        warn_user(
            f"column {column.name!r} of {column.origin.url} holds nanoseconds, which are "
            "truncated because times are read in microseconds. Store them as integers to keep all "
            "digits"
        )
    return plain if plain.type == column.arrow_type else cast(plain, column.arrow_type)


def _holds_times(type_: pa.DataType) -> bool:
    """Whether values are timestamps or durations, or have such parts."""
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return True
    return any(_holds_times(type_.field(i).type) for i in range(type_.num_fields))


def _to_output(column: Column, values: pa.Array, exact_nulls: bool) -> Values:
    """Convert plain values to the form in which an MDS shard returns the column.

    With `exact_nulls`, nulls in floating-point columns stay nulls instead of becoming NaN. The
    result may be a read-only view of `values`.
    """
    if values.null_count and not column.may_have_nulls:
        # A table's log recorded no nulls, but the file has some, or does not have the column.
        column = replace(column, null_count=values.null_count)
    dtype = column.parsed_encoding.dtype
    if dtype is None:
        return values
    if not column.is_array:
        valid = np.asarray(values.is_valid()) if values.null_count else None
        return to_logical(column, to_numpy(values, dtype), valid, None, exact_nulls=exact_nulls)
    if column.is_numpy(exact_nulls=exact_nulls):
        shape = column.value_shape or (0,)
        stored = to_numpy(nested_lists.elements_of(values), dtype).reshape(len(values), *shape)
        return to_logical(column, stored, None, None, exact_nulls=exact_nulls)
    is_nan = column.is_floating and not exact_nulls
    return nested_lists.with_nan_elements(values) if is_nan else values
