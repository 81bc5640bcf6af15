"""Collect record batches into full shards, without a loop over rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.errors import EncodingError, MDStormError
from mdstorm_backend.format import layout, shard_info
from mdstorm_backend.format.encodings import arrays, encode_arrays
from mdstorm_backend.format.encodings.encoding import EncodedColumn
from mdstorm_backend.format.schema import FORMAT_VERSION, Column, Schema
from mdstorm_backend.format.values.python_objects import first_failure
from mdstorm_backend.write.full_shard import Emit, FullShard, ShardFormat

#: Maximum number of header bytes that a bitmap takes besides its bits and its column's name.
_BITMAP_ENTRY = 64

#: Bytes of base64 text for each bit of a bitmap.
_BASE64_BIT = 1 / 6


@dataclass(frozen=True)
class EncodedSamples:
    """Encoded samples, stored back to back.

    Attributes
    ----------
    data : memoryview
        Bytes of the samples.
    ends : numpy.ndarray
        int64 ``(samples + 1,)``: sample i is ``data[ends[i]:ends[i + 1]]``.
    """

    data: memoryview
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends) - 1


def assemble_samples(columns: Sequence[EncodedColumn], num_rows: int) -> EncodedSamples:
    """Return samples assembled from encoded columns, which must be in stored order."""
    variable = [column for column in columns if column.fixed is None]
    if not variable:
        records = _records(columns, num_rows)
        ends = np.arange(num_rows + 1, dtype=np.int64) * records.itemsize
        return EncodedSamples(records.view(np.uint8).data, ends)
    sizes = np.empty((num_rows, len(variable)), "<u4")
    for i, column in enumerate(variable):
        sizes[:, i] = sum(np.diff(_stored_ends(part)) for part in column.parts)
    pieces = [_as_binary(sizes)]
    run: list[EncodedColumn] = []
    for column in columns:
        if column.fixed is not None:
            run.append(column)
            continue
        if run:
            pieces.append(_as_binary(_records(run, num_rows)))
            run = []
        pieces += column.parts
    if run:
        pieces.append(_as_binary(_records(run, num_rows)))
    joined = pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))
    ends = _stored_ends(joined)
    return EncodedSamples(memoryview(joined.buffers()[2])[ends[0] : ends[-1]], ends - ends[0])


def _records(columns: Sequence[EncodedColumn], num_rows: int) -> npt.NDArray[np.void]:
    arrays = [column.fixed for column in columns if column.fixed is not None]
    dtype = np.dtype([(f"f{i}", a.dtype, a.shape[1:]) for i, a in enumerate(arrays)])
    records = np.empty(num_rows, dtype)
    for i, array in enumerate(arrays):
        records[f"f{i}"] = array
    return records


def _as_binary(rows: npt.NDArray[np.generic]) -> pa.LargeBinaryArray:
    size = rows.dtype.itemsize * int(np.prod(rows.shape[1:]))
    ends = np.arange(len(rows) + 1, dtype=np.int64) * size
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(rows.reshape(-1).view(np.uint8).data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(rows), buffers)


def _stored_ends(values: pa.LargeBinaryArray) -> npt.NDArray[np.int64]:
    offsets = np.frombuffer(values.buffers()[1], np.int64)
    return offsets[values.offset : values.offset + len(values) + 1]


@dataclass
class ShardBuffer:
    """Collects samples with the same encodings until they fill a shard.

    Attributes
    ----------
    schema : Schema
        Schema of the dataset, written into the header.
    names, encodings : tuple of str
        Names and encodings of the columns, in stored order.
    format_ : ShardFormat
        Settings of the shard; the size limit includes the header.
    samples : int
        Number of collected samples.
    """

    schema: Schema
    names: tuple[str, ...]
    encodings: tuple[str, ...]
    format_: ShardFormat
    samples: int = field(default=0, init=False)
    _chunks: list[memoryview] = field(default_factory=list, init=False)
    _lengths: list[npt.NDArray[np.int64]] = field(default_factory=list, init=False)
    _pieces: list[tuple[list[EncodedColumn], int, int]] = field(default_factory=list, init=False)
    _with_nulls: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        bitmaps = sum(len(json.dumps(name)) + _BITMAP_ENTRY for name in self.names) * 2
        header = self._header(layout.Validity())
        self._used: float = layout.preamble_size(0, header) + bitmaps

    def append(self, columns: list[EncodedColumn], samples: EncodedSamples, start: int) -> int:
        """Append samples, beginning at `start`, until the shard is full.

        Returns
        -------
        int
            Index of the first sample that was not appended; an empty buffer takes at least one.
        """
        # A column gets a bitmap with its first null; the bitmap also covers the earlier rows.
        new = {column.name for column in columns if column.valid is not None} - self._with_nulls
        self._with_nulls |= new
        self._used += len(new) * self.samples * _BASE64_BIT
        limit = self.format_.size_limit or shard_info.MAX_SHARD_BYTES
        costs = self._costs(columns, samples, start)
        count = int(np.searchsorted(costs, limit - self._used, side="right"))
        if self.samples == 0:
            count = max(count, 1)
        if count == 0:
            return start
        stop = start + count
        self._used += float(costs[count - 1])
        self.samples += count
        self._chunks.append(samples.data[samples.ends[start] : samples.ends[stop]])
        self._lengths.append(np.diff(samples.ends[start : stop + 1]))
        self._pieces.append((columns, start, stop))
        return stop

    def _costs(
        self, columns: list[EncodedColumn], samples: EncodedSamples, start: int
    ) -> npt.NDArray[np.float64]:
        """Return the cumulative bytes that the samples from `start` onward add to the shard."""
        ends = samples.ends[start:] - samples.ends[start]
        count = np.arange(len(ends))
        row_cost = 4 + len(self._with_nulls) * _BASE64_BIT
        costs: npt.NDArray[np.float64] = ends + count * row_cost
        for column in columns:
            if column.element_ends is not None:
                elements = column.element_ends[start:] - column.element_ends[start]
                costs = costs + elements * _BASE64_BIT
        return costs[1:]

    def _validity(self) -> layout.Validity:
        """Return the validity masks of the collected samples."""
        rows: dict[str, npt.NDArray[np.bool_]] = {}
        elements: dict[str, npt.NDArray[np.bool_]] = {}
        for position, name in enumerate(self.names):
            pieces = [(columns[position], start, stop) for columns, start, stop in self._pieces]
            masks = [_mask(column.valid, start, stop) for column, start, stop in pieces]
            if not all(mask.all() for mask in masks):
                rows[name] = np.concatenate(masks)
            masks = [
                _mask(column.elements, column.element_ends[start], column.element_ends[stop])
                for column, start, stop in pieces
                if column.element_ends is not None
            ]
            if not all(mask.all() for mask in masks):
                elements[name] = np.concatenate(masks)
        return layout.Validity(rows, elements)

    def full(self) -> FullShard:
        """Return the collected samples as a shard."""
        validity = self._validity()
        start = layout.preamble(np.concatenate(self._lengths), self._header(validity))
        return FullShard(
            self.names,
            self.encodings,
            self.samples,
            [start, *self._chunks],
            null_counts=validity.null_counts,
            element_null_counts=validity.element_null_counts,
        )

    def _header(self, validity: layout.Validity) -> bytes:
        extra: dict[str, Any] = {"version": FORMAT_VERSION, "columns": self.schema.to_json()}
        if validity.rows or validity.elements:
            extra["nulls"] = layout.pack_validity(validity)
        return self.format_.header(self.names, self.encodings, extra)


def _mask(valid: npt.NDArray[np.bool_] | None, start: int, stop: int) -> npt.NDArray[np.bool_]:
    """Return a slice of a validity mask; the mask `valid` is None if all values are valid."""
    return np.ones(stop - start, np.bool_) if valid is None else valid[start:stop]


#: Samples are assembled from slices of about this many bytes, to bound memory.
_SLICE_BYTES = 32 << 20


@dataclass
class BatchShards:
    """Cuts record batches into shards that do not exceed the size limit of their format.

    A single sample larger than the limit gets its own shard. Memory: one shard and one batch.

    Attributes
    ----------
    schema : Schema
        Plan of the columns, in the order of the DataFrame.
    format_ : ShardFormat
        Settings of all shards.
    emit : callable
        Called with every `FullShard`, in order.
    given : frozenset of str
        Columns whose encodings the user chose: arrays are stored with their lengths even if all
        arrays of a shard have the same length, and never as JSON.
    first_row : int
        Number of the first row, for messages.
    num_rows : int
        Number of rows appended.
    """

    schema: Schema
    format_: ShardFormat
    emit: Emit
    given: frozenset[str] = frozenset()
    first_row: int = 0
    num_rows: int = field(default=0, init=False)
    #: Nested array columns stored as JSON in a shard, and therefore in all later shards.
    _as_json: set[str] = field(default_factory=set, init=False)
    _buffer: ShardBuffer | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._stored_order = tuple(sorted(self.schema.names))
        #: Array columns that are stored with their lengths.
        self._ragged = set(self.given)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of `batch`, which has the columns of the schema in any order."""
        size = max(1, batch.num_rows * _SLICE_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, size):
            rows = batch.slice(start, size)
            columns = self._encode(rows)
            samples = assemble_samples(columns, rows.num_rows)
            self.num_rows += len(samples)
            encodings = tuple(column.encoding for column in columns)
            done = 0
            while done < len(samples):
                if self._buffer is None:
                    names = self._stored_order
                    self._buffer = ShardBuffer(self.schema, names, encodings, self.format_)
                done = self._buffer.append(columns, samples, done)
                if done < len(samples):
                    self.flush()

    def flush(self) -> None:
        """Emit the collected rows as a shard, if there are any."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            self.emit(buffer.full())

    def _encode(self, rows: pa.RecordBatch) -> list[EncodedColumn]:
        columns = [self._encode_one(name, rows.column(name)) for name in self._stored_order]
        if self._buffer is None:
            return columns
        # A shard records one encoding per column. If the shape of a column's arrays changes, a new
        # shard starts, and the column is stored with shapes from then on. So this happens at most
        # once per column, or twice for nested arrays, which may become JSON.
        changed = [
            column.name
            for column, encoding in zip(columns, self._buffer.encodings, strict=True)
            if column.encoding != encoding
        ]
        if changed:
            self.flush()
            self._ragged.update(changed)
            columns = [
                self._encode_one(c.name, rows.column(c.name)) if c.name in changed else c
                for c in columns
            ]
        return columns

    def _encode_one(self, name: str, values: pa.Array) -> EncodedColumn:
        column = self.schema[name]
        as_json = name in self._as_json
        encoded = encode_column(
            column,
            values,
            ragged=name in self._ragged,
            as_json=as_json,
            first_row=self.first_row + self.num_rows,
        )
        if encoded.encoding == "json" and column.is_array:
            if name in self.given:
                raise _refused(column, ValueError(encode_arrays.UNEVEN))
            self._as_json.add(name)
        return encoded


def encode_column(
    column: Column, values: pa.Array, *, ragged: bool, as_json: bool = False, first_row: int = 0
) -> EncodedColumn:
    """Encode some rows of a column.

    Parameters
    ----------
    column : Column
        Plan of the column: the encoding, and for arrays the dtype of the elements. If it has a
        Spark type, floating-point numbers are cast as Spark casts them; if not, every value must
        fit.
    values : pyarrow.Array
        The rows, from Spark or any other source of Arrow data.
    ragged : bool
        Store arrays with their lengths even if all of them have the same length.
    as_json : bool
        Store nested lists as JSON, even if all of them here are arrays.
    first_row : int
        Number of the first row, for messages.

    Raises
    ------
    EncodingError
        If a value does not fit the encoding, or is invalid: text that is not UTF-8, or a decimal
        beyond its precision.
    """
    cast, encoding = column.spark_type is not None, column.parsed_encoding

    def encode(rows: pa.Array) -> EncodedColumn:
        if as_json and isinstance(encoding, arrays.ArrayEncoding):
            return encoding.encode_column_as_json(column.name, rows)
        return encoding.encode_column(column.name, rows, cast=cast, ragged=ragged)

    try:
        return encode(values)
    except MDStormError:
        raise
    except _REFUSALS as error:
        row, reason = first_failure(values, encode, _REFUSALS) or (None, error)
        raise _refused(column, reason, None if row is None else first_row + row) from error


#: Errors of encodings for values that they cannot hold.
_REFUSALS = (ArithmeticError, TypeError, ValueError)


def _refused(column: Column, error: Exception, row: int | None = None) -> EncodingError:
    where = "" if row is None else f" in row {row}"
    return EncodingError.class_for(error)(
        f"column {column.name!r} has a value{where} that encoding {column.encoding!r} cannot hold: "
        f"{error}. Convert the column first, or choose a different encoding",
        column=column.name,
        encoding=column.encoding,
    )
