"""Record batches to shard files: one writer per Spark task, or one per process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.compression import compress, extension
from mdstorm_backend.encodings import parse_encoding
from mdstorm_backend.index import FileInfo, ShardInfo
from mdstorm_backend.schema import Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.write.encode import encode_column
from mdstorm_backend.write.encoded_column import EncodedColumn
from mdstorm_backend.write.samples import Samples, assemble_samples
from mdstorm_backend.write.shard_buffer import ShardBuffer

__all__ = ["ShardReport", "ShardWriter"]

#: Samples are assembled from slices of about this many bytes, to bound memory.
_SLICE_BYTES = 32 << 20


@dataclass(frozen=True)
class ShardReport:
    """What a writer tells the one who commits: a shard and the nulls it holds.

    Attributes
    ----------
    info : ShardInfo
        The shard's entry for the index.
    null_counts, element_null_counts : dict of str to int
        Null rows, and null array elements, of the columns that have any.
    """

    info: ShardInfo
    null_counts: dict[str, int] = field(default_factory=dict)
    element_null_counts: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, for the way from an executor to the driver."""
        return {
            "info": self.info.to_json(),
            "null_counts": self.null_counts,
            "element_null_counts": self.element_null_counts,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ShardReport:
        """Read what `to_json` wrote."""
        info = ShardInfo.from_json(value["info"])
        return cls(info, value["null_counts"], value["element_null_counts"])


class ShardWriter:
    """Writes record batches as shards of at most `shard_size` bytes.

    A single sample larger than that gets a shard of its own. Memory: one shard and one batch.

    Parameters
    ----------
    location : Location
        Directory of the dataset.
    schema : Schema
        Plan of the columns, in the order of the DataFrame.
    prefix : str
        Start of the shards' names, unique to this writer: ``<prefix>.<sequence>.mds``.
    shard_size : int
        Largest size of an uncompressed shard in bytes.
    compression : str or None
        Codec of the format, such as ``"zstd:1"``.
    """

    def __init__(
        self,
        location: Location,
        schema: Schema,
        *,
        prefix: str,
        shard_size: int,
        compression: str | None = None,
    ) -> None:
        self._location = location
        self._schema = schema
        self._stored_order = tuple(sorted(schema.names))
        self._prefix = prefix
        self._shard_size = shard_size
        self._compression = compression
        self._ragged: set[str] = set()
        self._buffer: ShardBuffer | None = None
        self._reports: list[ShardReport] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of `batch`, whose columns are those of the schema in any order."""
        for rows in _slices(batch):
            columns = self._encode(rows)
            samples = assemble_samples(columns, rows.num_rows)
            self._append(columns, samples)

    def close(self) -> list[ShardReport]:
        """Write the last shard and return a report of each one."""
        self._flush()
        return self._reports

    def _encode(self, rows: pa.RecordBatch) -> list[EncodedColumn]:
        columns = [self._encode_one(name, rows.column(name)) for name in self._stored_order]
        if self._buffer is None:
            return columns
        # The encodings are stated once per shard. Arrays whose length changes start a new shard,
        # and are stored with their lengths from there on, so this happens once per column.
        changed = [
            column.name
            for column, encoding in zip(columns, self._buffer.encodings, strict=True)
            if column.encoding != encoding
        ]
        if changed:
            self._flush()
            self._ragged.update(changed)
            columns = [
                self._encode_one(c.name, rows.column(c.name)) if c.name in changed else c
                for c in columns
            ]
        return columns

    def _encode_one(self, name: str, values: pa.Array) -> EncodedColumn:
        return encode_column(self._schema[name], values, ragged=name in self._ragged)

    def _append(self, columns: list[EncodedColumn], samples: Samples) -> None:
        start = 0
        while start < len(samples):
            if self._buffer is None:
                encodings = tuple(column.encoding for column in columns)
                self._buffer = ShardBuffer(
                    self._schema, self._stored_order, encodings, self._shard_size, self._compression
                )
            start = self._buffer.append(columns, samples, start)
            if start < len(samples):
                self._flush()

    def _flush(self) -> None:
        buffer, self._buffer = self._buffer, None
        if buffer is None:
            return
        raw = FileInfo(f"{self._prefix}.{len(self._reports):05}.mds", buffer.size, {})
        content, packed = buffer.content(), None
        if self._compression:
            data = compress(self._compression, content)
            content = [data]
            packed = FileInfo(f"{raw.basename}.{extension(self._compression)}", len(data), {})
        self._location.write((packed or raw).basename, content)
        info = ShardInfo(
            column_names=self._stored_order,
            column_encodings=buffer.encodings,
            column_sizes=tuple(parse_encoding(text).size for text in buffer.encodings),
            samples=buffer.samples,
            raw_data=raw,
            zip_data=packed,
            compression=self._compression,
            size_limit=self._shard_size,
        )
        validity = buffer.validity
        self._reports.append(
            ShardReport(
                info,
                {n: int(np.count_nonzero(~mask)) for n, mask in validity.rows.items()},
                {n: int(np.count_nonzero(~mask)) for n, mask in validity.elements.items()},
            )
        )


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(1, batch.num_rows * _SLICE_BYTES // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
