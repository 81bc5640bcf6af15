"""Collect record batches into full shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from mdstorm_backend.display import counted
from mdstorm_backend.errors import EncodingError, InvalidArgumentError, MDStormError
from mdstorm_backend.format.encodings.arrays import Array
from mdstorm_backend.format.encodings.encode_arrays import UNEVEN
from mdstorm_backend.format.encodings.encoding import EncodedColumn
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.type_plan import plan_batch
from mdstorm_backend.write.shard_buffer import (
    FullShard,
    Samples,
    ShardBuffer,
    ShardFormat,
    assemble_samples,
)

#: Samples are assembled from slices of about this many bytes, to bound memory.
_SLICE_BYTES = 32 << 20


class BatchShards:
    """Cuts record batches into shards of at most the size limit of their format.

    A single sample larger than the limit gets its own shard. Memory: one shard and one batch.

    Parameters
    ----------
    schema : Schema
        Plan of the columns, in the order of the DataFrame.
    format_ : ShardFormat
        Settings of all shards.
    emit : callable
        Called with every `FullShard`, in order.
    ragged : frozenset of str
        Array columns that are stored with their lengths even if all arrays of a shard have the same
        length.
    """

    def __init__(
        self,
        schema: Schema,
        format_: ShardFormat,
        emit: Callable[[FullShard], None],
        ragged: frozenset[str] = frozenset(),
    ) -> None:
        self._schema = schema
        self._stored_order = tuple(sorted(schema.names))
        self._format = format_
        self._emit = emit
        self._given = ragged
        self._ragged = set(ragged)
        #: Nested array columns that were stored as JSON once, and so are from then on.
        self._as_json: set[str] = set()
        self._buffer: ShardBuffer | None = None
        #: Number of rows appended.
        self.num_rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of `batch`, which has the columns of the schema in any order."""
        size = max(1, batch.num_rows * _SLICE_BYTES // max(batch.nbytes, 1))
        for start in range(0, batch.num_rows, size):
            rows = batch.slice(start, size)
            columns = self._encode(rows)
            samples = assemble_samples(columns, rows.num_rows)
            self.num_rows += len(samples)
            self._append(columns, samples)

    def flush(self) -> None:
        """Emit the collected rows as a shard, if there are any."""
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            self._emit(buffer.full())

    def _encode(self, rows: pa.RecordBatch) -> list[EncodedColumn]:
        columns = [self._encode_one(name, rows.column(name)) for name in self._stored_order]
        if self._buffer is None:
            return columns
        # A shard records each encoding once. If the shape of a column's arrays changes, a new shard
        # starts, and the column is stored with shapes from then on. So this happens at most once
        # per column, or twice for nested arrays, which may become JSON.
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
        column = self._schema[name]
        as_json = name in self._as_json
        encoded = encode_column(column, values, ragged=name in self._ragged, as_json=as_json)
        if encoded.encoding == "json" and column.is_array:
            if name in self._given:
                raise _refused(column, ValueError(UNEVEN))
            self._as_json.add(name)
        return encoded

    def _append(self, columns: list[EncodedColumn], samples: Samples) -> None:
        start = 0
        while start < len(samples):
            if self._buffer is None:
                encodings = tuple(column.encoding for column in columns)
                self._buffer = ShardBuffer(
                    self._schema, self._stored_order, encodings, self._format
                )
            start = self._buffer.append(columns, samples, start)
            if start < len(samples):
                self.flush()


class TableShards(BatchShards):
    """Cuts tables into shards; all tables must have the columns and types of the first one.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the first table.
    columns : dict of str to str, optional
        Encodings that the user chose; other columns get the encoding of their type.
    format_, emit
        As for `BatchShards`.

    Attributes
    ----------
    plan : Schema
        The logical schema.
    """

    def __init__(
        self,
        schema: pa.Schema,
        columns: Mapping[str, str] | None,
        format_: ShardFormat,
        emit: Callable[[FullShard], None],
    ) -> None:
        self.plan = plan_batch(schema, columns)
        # An encoding that the user chose is written unchanged.
        super().__init__(self.plan, format_, emit, frozenset(columns or ()))
        self._types = {name: schema.field(name).type for name in self.plan.names}

    def write_table(self, data: pa.Table) -> None:
        """Append the rows of a table; if it raises, some rows may already have been appended."""
        self._check_columns(data)
        for batch in data.select(list(self._types)).to_batches():
            self.write(batch)

    def _check_columns(self, data: pa.Table) -> None:
        types = {field.name: field.type for field in data.schema}
        for name, type_ in self._types.items():
            if types.get(name) != type_:
                raise InvalidArgumentError(
                    f"column {name!r} has type {types.get(name, 'nothing at all')} in this batch "
                    f"and {type_} in earlier ones: give all the same columns and types"
                )
            nulls = 0 if self.plan[name].nullable else data.column(name).null_count
            if nulls:
                raise InvalidArgumentError(
                    f"column {name!r} holds {counted(nulls, 'null')}, and the schema of the first "
                    "batch says that it has none: make the field nullable there, or fill the nulls"
                )


def encode_column(
    column: Column, values: pa.Array, *, ragged: bool, as_json: bool = False
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

    Raises
    ------
    EncodingError
        If a value does not fit the encoding.
    """
    cast, encoding = column.spark_type is not None, column.parsed_encoding
    try:
        if as_json and isinstance(encoding, Array):
            return encoding.encode_column_as_json(column.name, values)
        return encoding.encode_column(column.name, values, cast=cast, ragged=ragged)
    except MDStormError:
        raise
    except (ArithmeticError, TypeError, ValueError) as error:
        raise _refused(column, error) from error


def _refused(column: Column, error: Exception) -> EncodingError:
    return EncodingError.class_for(error)(
        f"column {column.name!r} holds a value that encoding {column.encoding!r} cannot hold: "
        f"{error}. Convert the column before, or choose another encoding",
        column=column.name,
        encoding=column.encoding,
    )
